//! Large vectors in huge pages: what is read and written here and there misses fewer translations of addresses.

/// The size of huge pages.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;

/// An empty vector with room for so many values.
pub(crate) fn with_room<T>(count: usize) -> Vec<T> {
    let mut room = Vec::with_capacity(count);
    advise(&mut room);
    room
}

/// A vector of so many values.
pub(crate) fn filled<T: Copy>(count: usize, value: T) -> Vec<T> {
    let mut values = with_room(count);
    values.resize(count, value);
    values
}

/// Ask for huge pages where they lie within the vector's memory. It is only advice: a system without them says no.
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
