//! Large vectors on huge pages, so that random access misses the TLB less often.

/// The size of huge pages.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;

/// An empty vector with that capacity.
pub(crate) fn with_room<T>(count: usize) -> Vec<T> {
    let mut room = Vec::with_capacity(count);
    advise(&mut room);
    room
}

pub(crate) fn filled<T: Copy>(count: usize, value: T) -> Vec<T> {
    let mut values = with_room(count);
    values.resize(count, value);
    values
}

/// Advise the system to use huge pages within the vector's memory; a system without them ignores or refuses that.
#[cfg(target_os = "linux")]
fn advise<T>(room: &mut Vec<T>) {
    let bytes = room.capacity() * size_of::<T>();
    let start = room.as_mut_ptr().cast::<u8>();
    let before = start.align_offset(HUGE);
    if bytes < 2 * HUGE || before >= bytes {
        return;
    }
    let length = (bytes - before) / HUGE * HUGE;
    // SAFETY: the range is the vector's own.
    let aligned = unsafe { start.add(before) };
    // SAFETY: as above, and the advice does not change its contents.
    let _ = unsafe { rustix::mm::madvise(aligned.cast(), length, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn advise<T>(_: &mut Vec<T>) {}
