//! A stream of bytes from one process to another, in shared memory: one producer, one consumer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use craton_slab::Segment;

/// Bytes before the data of a ring.
pub(crate) const RING_HEAD: usize = 512;
/// After this many bytes the producer publishes what it has written, so that both sides copy at once.
const STEP: usize = 64 << 10;

/// The place of a ring in a segment.
#[derive(Clone)]
pub(crate) struct RingPlace {
    segment: Arc<Segment>,
    offset: usize,
    capacity: usize,
}

impl RingPlace {
    /// The ring at an offset; `None` if it does not fit into the segment, or the numbers cannot be those of a ring.
    pub fn new(segment: Arc<Segment>, offset: usize, capacity: usize) -> Option<Self> {
        let end = offset.checked_add(RING_HEAD)?.checked_add(capacity)?;
        let fits = capacity.is_power_of_two() && offset % 64 == 0 && end <= segment.len();
        fits.then_some(Self { segment, offset, capacity })
    }

    fn counter(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the head of the ring is in the mapping, aligned to 64 bytes, and accessed as atomics only.
        unsafe { AtomicU64::from_ptr(self.segment.as_ptr().cast_mut().add(self.offset + at).cast()) }
    }

    /// The number of bytes ever written.
    fn written(&self) -> &AtomicU64 {
        self.counter(0)
    }

    /// The number of bytes ever read.
    fn read(&self) -> &AtomicU64 {
        self.counter(128)
    }

    /// Whether the producer waits for room.
    pub fn starved(&self) -> &AtomicU32 {
        // SAFETY: as for `counter`.
        unsafe { AtomicU32::from_ptr(self.segment.as_ptr().cast_mut().add(self.offset + 256).cast()) }
    }

    /// The address of the byte with this number, and how many follow before the end of the ring's memory.
    fn at(&self, number: u64) -> (*mut u8, usize) {
        let place = (number as usize) & (self.capacity - 1);
        let start = self.segment.as_ptr().cast_mut().wrapping_add(self.offset + RING_HEAD + place);
        (start, self.capacity - place)
    }
}

/// The writing end.
pub(crate) struct Producer {
    pub place: RingPlace,
    written: u64,
    read: u64,
}

impl Producer {
    pub fn new(place: RingPlace) -> Self {
        Self { place, written: 0, read: 0 }
    }

    /// The bytes that can be written now.
    pub fn room(&mut self) -> usize {
        self.read = self.place.read().load(Ordering::Acquire);
        // A consumer that breaks the rules makes this 0 at worst, and the producer waits for ever; it cannot write outside the ring.
        self.place.capacity.saturating_sub(self.written.wrapping_sub(self.read) as usize)
    }

    /// Write the first bytes of these; return how many there was room for. Publish them later.
    ///
    /// # Safety
    /// `length` bytes at `start` must be readable.
    pub unsafe fn write(&mut self, mut start: *const u8, length: usize) -> usize {
        let mut left = length;
        while left > 0 {
            let mut room = self.place.capacity.saturating_sub(self.written.wrapping_sub(self.read) as usize);
            if room < left.min(STEP) {
                room = self.room();
            }
            let (target, contiguous) = self.place.at(self.written);
            let count = left.min(room).min(contiguous).min(STEP);
            if count == 0 {
                break;
            }
            // SAFETY: the target is in the ring, and the consumer does not read it before it is published.
            unsafe { std::ptr::copy_nonoverlapping(start, target, count) };
            self.written += count as u64;
            left -= count;
            start = start.wrapping_add(count);
            if count == STEP {
                self.publish();
            }
        }
        length - left
    }

    /// Make all written bytes visible to the consumer.
    pub fn publish(&self) {
        self.place.written().store(self.written, Ordering::Release);
    }
}

/// The reading end.
pub(crate) struct Consumer {
    pub place: RingPlace,
    read: u64,
    written: u64,
}

impl Consumer {
    pub fn new(place: RingPlace) -> Self {
        Self { place, read: 0, written: 0 }
    }

    /// The bytes that can be read now.
    pub fn available(&mut self) -> usize {
        if self.written == self.read {
            self.written = self.place.written().load(Ordering::Acquire);
        }
        (self.written.wrapping_sub(self.read) as usize).min(self.place.capacity)
    }

    /// Whether there is something to read; for a last check before sleeping.
    pub fn is_empty(&self) -> bool {
        self.place.written().load(Ordering::SeqCst) == self.read
    }

    /// Read up to `length` bytes; return how many there were. Release them later.
    ///
    /// # Safety
    /// `length` bytes at `target` must be writable.
    pub unsafe fn read(&mut self, mut target: *mut u8, length: usize) -> usize {
        let mut left = length;
        while left > 0 {
            let available = self.available();
            let (start, contiguous) = self.place.at(self.read);
            let count = left.min(available).min(contiguous).min(STEP);
            if count == 0 {
                break;
            }
            // SAFETY: the bytes are in the ring and were published; the producer does not write to them before they are released.
            unsafe { std::ptr::copy_nonoverlapping(start, target, count) };
            self.read += count as u64;
            left -= count;
            target = target.wrapping_add(count);
            if count == STEP {
                self.release();
            }
        }
        length - left
    }

    /// Give the room of all read bytes back to the producer.
    pub fn release(&self) {
        self.place.read().store(self.read, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use craton_slab::Segment;

    use super::{Consumer, Producer, RING_HEAD, RingPlace};

    #[test]
    fn bytes_keep_their_order_around_the_end() {
        let segment = Segment::create(1, RING_HEAD + 256).unwrap();
        let place = RingPlace::new(segment, 0, 256).unwrap();
        let (mut producer, mut consumer) = (Producer::new(place.clone()), Consumer::new(place));
        let (mut sent, mut received) = (0_u32, 0_u32);
        for step in 0..5000_usize {
            let bytes: Vec<u8> = (0..step % 300).map(|i| (sent as usize + i) as u8).collect();
            // SAFETY: the memory is the vector's.
            sent += unsafe { producer.write(bytes.as_ptr(), bytes.len()) } as u32;
            producer.publish();
            let mut target = vec![0; (step * 7) % 300];
            // SAFETY: as above.
            let count = unsafe { consumer.read(target.as_mut_ptr(), target.len()) };
            consumer.release();
            assert!(target[..count].iter().enumerate().all(|(i, &byte)| byte == (received as usize + i) as u8));
            received += count as u32;
        }
        assert!(received > 100_000 && sent - received <= 256);
    }

    #[test]
    fn places_outside_the_segment_are_refused() {
        let segment = Segment::create(1, RING_HEAD + 256).unwrap();
        for (offset, capacity) in [(64, 256), (0, 512), (0, 100), (usize::MAX & !63, 256), (1, 128)] {
            assert!(RingPlace::new(segment.clone(), offset, capacity).is_none());
        }
    }
}
