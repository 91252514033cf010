//! How deep a pickle nests, told from its opcodes before it is read.
//!
//! Reading a pickle does not recurse, so one megabyte makes tuples in tuples a million deep. What happens to them then does recurse: to hash
//! such a tuple, or to free a chain of objects of C types, ends the process when its stack is full. And an opcode of five bytes that puts
//! something at a high place of the memo has the reader allocate, and clear, room for all places below. [`check`] walks over the opcodes, as
//! the reader will, and refuses both.
//!
//! What is counted is how deep tuples, containers and the arguments of constructors lie in each other. A reference to something that was read
//! before counts with the depth that it had when it was remembered: tuples are whole then, while lists, dicts and the attributes of objects are
//! filled later. So a list of many objects, each of which refers to the one before, is not deep; Python's own checks watch over those.

use crate::error::{Result, at_most, invalid};

/// Places of the memo that may be left out: picklers number what they remember one by one.
const SKIPPED: usize = 1 << 10;
/// A place of the memo where nothing is.
const NOTHING: u32 = u32::MAX;
/// What a walk over a small pickle needs.
const USUAL: usize = 32;

/// Find that no value of a pickle nests deeper than `most`, and that it does not claim what is not there: places of the memo, or bytes. What
/// follows its end is not looked at. A pickle that is too short to nest so deep, and has no opcode that could claim much, is left to its reader.
///
/// # Errors
/// [`TooLarge`](crate::Error::TooLarge) when it nests deeper, or leaves places out; [`Invalid`](crate::Error::Invalid) when it is truncated,
/// or takes what is not there, or no pickle at all.
pub fn check(bytes: &[u8], most: u32) -> Result<()> {
    // Each level takes a byte.
    if u32::try_from(bytes.len()).is_ok_and(|length| length <= most)
        && !bytes.iter().any(|byte| CLAIMING[usize::from(*byte)])
    {
        return Ok(());
    }
    walk(bytes, most)
}

/// The opcodes after which the reader allocates before it reads: places of the memo, and lengths of eight bytes.
const CLAIMING: [bool; 256] = {
    let mut found = [false; 256];
    let codes = [b'p', b'r', 0x8d, 0x8e, 0x96];
    let mut number = 0;
    while number < codes.len() {
        found[codes[number] as usize] = true;
        number += 1;
    }
    found
};

fn walk(bytes: &[u8], most: u32) -> Result<()> {
    let mut walk = Walk {
        bytes,
        at: 0,
        most,
        stack: Vec::with_capacity(USUAL),
        marks: Vec::with_capacity(USUAL),
        memo: Vec::with_capacity(USUAL),
        remembered: 0,
    };
    while walk.step()? {}
    Ok(())
}

/// The reader's state, with depths in the place of values.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    most: u32,
    stack: Vec<u32>,
    /// How high the stack was at each mark that is open.
    marks: Vec<usize>,
    memo: Vec<u32>,
    /// Places of the memo where something is.
    remembered: usize,
}

impl Walk<'_> {
    /// Follow one opcode; whether there is another.
    fn step(&mut self) -> Result<bool> {
        let [code] = self.array::<1>()?;
        match code {
            b'.' => {
                self.pop()?;
                return Ok(false);
            }
            // Values without parts, by what follows the opcode: nothing, a fixed number of bytes, a line, a length and as many bytes.
            b'N' | 0x88 | 0x89 | 0x97 => self.stack.push(0),
            b'K' | 0x82 => self.leaf(1)?,
            b'M' | 0x83 => self.leaf(2)?,
            b'J' | 0x84 => self.leaf(4)?,
            b'G' => self.leaf(8)?,
            b'F' | b'I' | b'L' | b'S' | b'V' | b'P' => {
                self.line()?;
                self.stack.push(0);
            }
            b'c' => {
                self.line()?;
                self.line()?;
                self.stack.push(0);
            }
            b'U' | b'C' | 0x8a | 0x8c => {
                let [length] = self.array()?;
                self.leaf(usize::from(length))?;
            }
            b'T' | b'B' | b'X' | 0x8b => {
                let length = self.u32()?;
                self.leaf(length)?;
            }
            0x8d | 0x8e | 0x96 => {
                let length = usize::try_from(u64::from_le_bytes(self.array()?)).unwrap_or(usize::MAX);
                self.leaf(length)?;
            }
            // What is about the stream, or leaves the stack's top as it is.
            0x80 => self.skip(1)?,
            0x95 => {
                let length = usize::try_from(u64::from_le_bytes(self.array()?)).unwrap_or(usize::MAX);
                let start = self.at;
                self.skip(length)?;
                self.at = start;
            }
            0x98 => {
                self.top()?;
            }
            // The stack.
            b'(' => {
                self.marks.push(self.stack.len());
                at_most("the number of lists that a pickle has open", self.marks.len() as u64, self.most.into())?;
            }
            b'0' => {
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                } else {
                    self.pop()?;
                }
            }
            b'1' => {
                self.since_mark()?;
            }
            b'2' => {
                let depth = *self.top()?;
                self.stack.push(depth);
            }
            // Containers: made at once, empty, and filled.
            b')' | b']' | b'}' | 0x8f => self.stack.push(1),
            0x85..=0x87 => self.wrap(usize::from(code - 0x84))?,
            b't' | b'l' | b'd' | 0x91 | b'o' => {
                let deepest = self.since_mark()?;
                self.push_around(deepest)?;
            }
            b'i' => {
                self.line()?;
                self.line()?;
                let deepest = self.since_mark()?;
                self.push_around(deepest)?;
            }
            b'a' | b'b' => self.fill(1)?,
            b's' => self.fill(2)?,
            b'e' | b'u' | 0x90 => {
                let deepest = self.since_mark()?;
                self.deepen(deepest)?;
            }
            // Objects of what they are made by and with.
            b'R' | 0x81 => self.wrap(2)?,
            0x92 => self.wrap(3)?,
            b'Q' => self.wrap(1)?,
            0x93 => {
                self.pop()?;
                self.pop()?;
                self.stack.push(0);
            }
            // The memo.
            0x94 => self.put(self.remembered)?,
            b'q' => {
                let [place] = self.array()?;
                self.put(usize::from(place))?;
            }
            b'r' => {
                let place = self.u32()?;
                self.put(place)?;
            }
            b'p' => {
                let place = self.number()?;
                self.put(place)?;
            }
            b'h' => {
                let [place] = self.array()?;
                self.get(usize::from(place))?;
            }
            b'j' => {
                let place = self.u32()?;
                self.get(place)?;
            }
            b'g' => {
                let place = self.number()?;
                self.get(place)?;
            }
            _ => invalid!("a pickle has no opcode {code:#04x}, which is at byte {}", self.at - 1),
        }
        Ok(true)
    }

    // ---- the bytes ----

    fn skip(&mut self, count: usize) -> Result<()> {
        let left = self.bytes.len() - self.at;
        if count > left {
            invalid!("a pickle is truncated: {count} bytes should follow byte {}, and {left} do", self.at);
        }
        self.at += count;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let start = self.at;
        self.skip(N)?;
        let mut found = [0; N];
        found.copy_from_slice(&self.bytes[start..self.at]);
        Ok(found)
    }

    fn u32(&mut self) -> Result<usize> {
        Ok(usize::try_from(u32::from_le_bytes(self.array()?)).unwrap_or(usize::MAX))
    }

    fn line(&mut self) -> Result<&[u8]> {
        let start = self.at;
        let Some(length) = self.bytes[start..].iter().position(|byte| *byte == b'\n') else {
            invalid!("a pickle is truncated: a line that starts at byte {start} has no end");
        };
        self.at += length + 1;
        Ok(&self.bytes[start..start + length])
    }

    fn number(&mut self) -> Result<usize> {
        let line = self.line()?;
        match std::str::from_utf8(line).ok().and_then(|text| text.trim().parse().ok()) {
            Some(number) => Ok(number),
            None => invalid!("a pickle's memo has no place {:?}", line.escape_ascii().to_string()),
        }
    }

    // ---- the stack ----

    fn leaf(&mut self, bytes: usize) -> Result<()> {
        self.skip(bytes)?;
        self.stack.push(0);
        Ok(())
    }

    /// Where the values end that belong to the last mark.
    fn fence(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&mut self) -> Result<&mut u32> {
        let (fence, at) = (self.fence(), self.at);
        match self.stack.get_mut(fence..).and_then(<[u32]>::last_mut) {
            Some(top) => Ok(top),
            None => invalid!("a pickle takes a value that is not there, at byte {at}"),
        }
    }

    fn pop(&mut self) -> Result<u32> {
        let depth = *self.top()?;
        self.stack.pop();
        Ok(depth)
    }

    /// Take what has come since the last mark, and the mark; how deep its deepest value is, or 0.
    fn since_mark(&mut self) -> Result<u32> {
        let Some(mark) = self.marks.pop() else {
            invalid!("a pickle takes a mark that is not there, at byte {}", self.at);
        };
        let deepest = self.stack.get(mark..).and_then(|values| values.iter().max()).copied().unwrap_or(0);
        self.stack.truncate(mark);
        Ok(deepest)
    }

    fn around(&self, deepest: u32) -> Result<u32> {
        let depth = deepest.saturating_add(1);
        at_most("the depth of a pickled value", depth.into(), self.most.into())?;
        Ok(depth)
    }

    fn push_around(&mut self, deepest: u32) -> Result<()> {
        let depth = self.around(deepest)?;
        self.stack.push(depth);
        Ok(())
    }

    /// Put something around the last values.
    fn wrap(&mut self, count: usize) -> Result<()> {
        let mut deepest = 0;
        for _ in 0..count {
            deepest = self.pop()?.max(deepest);
        }
        self.push_around(deepest)
    }

    /// Put the last values into the one before them.
    fn fill(&mut self, count: usize) -> Result<()> {
        let mut deepest = 0;
        for _ in 0..count {
            deepest = self.pop()?.max(deepest);
        }
        self.deepen(deepest)
    }

    fn deepen(&mut self, deepest: u32) -> Result<()> {
        let depth = self.around(deepest)?;
        let top = self.top()?;
        *top = depth.max(*top);
        Ok(())
    }

    // ---- the memo ----

    fn put(&mut self, place: usize) -> Result<()> {
        let depth = *self.top()?;
        if place >= self.memo.len() {
            at_most("a place of a pickle's memo", place as u64, (self.remembered + SKIPPED) as u64)?;
            self.memo.resize(place + 1, NOTHING);
        }
        if self.memo[place] == NOTHING {
            self.remembered += 1;
        }
        self.memo[place] = depth;
        Ok(())
    }

    fn get(&mut self, place: usize) -> Result<()> {
        match self.memo.get(place) {
            Some(depth) if *depth != NOTHING => self.stack.push(*depth),
            _ => invalid!("a pickle's memo has nothing at place {place}"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    const MOST: u32 = 100;

    fn repeated(parts: &[(&[u8], usize)]) -> Vec<u8> {
        parts.iter().flat_map(|(part, count)| part.repeat(*count)).collect()
    }

    fn is_too_large(pickle: &[u8]) -> bool {
        matches!(check(pickle, MOST), Err(Error::TooLarge { .. }))
    }

    #[test]
    fn whole_pickles() {
        // (1, [2, {"a": (None, True)}]), with protocols 5 and 0.
        let newest = b"\x80\x05\x95\x15\0\0\0\0\0\0\0K\x01](K\x02}\x94\x8c\x01a\x94N\x88\x86\x94s\x65\x86\x94.";
        let oldest = b"(I1\n(lp0\nI2\na(dp1\nVa\np2\n(NI01\ntp3\nsatp4\n.";
        for pickle in [&newest[..], oldest] {
            check(pickle, 4).unwrap();
            assert!(matches!(check(pickle, 3), Err(Error::TooLarge { .. })));
            for end in 0..pickle.len() {
                assert!(matches!(walk(&pickle[..end], 4), Err(Error::Invalid(_))), "{end}");
            }
        }
    }

    #[test]
    fn as_deep_as_is_accepted_and_no_deeper() {
        for (open, close) in [
            (&b"("[..], &b"t"[..]),
            (b")", b"\x85"),
            (b"]", b"a"),
            (b"(", b"l"),
            (b"]", b"(e"),
            (b"}N", b"s"),
            (b"(", b"\x91"),
            (b"cbuiltins\nslice\n", b"\x85R"),
            (b"ca\nb\n)\x81", b"b"),
        ] {
            let nested = |count: usize| match (open, close) {
                (b")", _) => repeated(&[(open, 1), (close, count - 1), (b".", 1)]),
                (b"]", b"(e") => repeated(&[(b"](", count), (b"e", count), (b".", 1)]),
                (b"]", _) => repeated(&[(open, count), (close, count - 1), (b".", 1)]),
                (b"cbuiltins\nslice\n", _) => repeated(&[(open, count), (b")R", 1), (close, count - 1), (b".", 1)]),
                (b"ca\nb\n)\x81", _) => repeated(&[(open, count), (close, count - 1), (b".", 1)]),
                (b"}N", _) => repeated(&[(open, count), (b"N", 1), (close, count), (b".", 1)]),
                _ => repeated(&[(open, count), (close, count), (b".", 1)]),
            };
            check(&nested(10), MOST).unwrap();
            assert!(is_too_large(&nested(MOST as usize + 1)), "{open:?}");
            assert!(is_too_large(&nested(1_000_000)), "{open:?}");
        }
    }

    #[test]
    fn marks_that_stay_open() {
        assert!(is_too_large(&repeated(&[(b"(", 1_000_000)])));
    }

    #[test]
    fn depth_goes_through_the_memo() {
        // Each tuple is taken from the memo, and has the one before in it.
        let step = b"0h\0\x85q\0";
        assert!(is_too_large(&repeated(&[(b")q\0", 1), (step, 1000), (b".", 1)])));
        check(&repeated(&[(b")q\0", 1), (step, 50), (b".", 1)]), MOST).unwrap();
        // Lists are remembered when they are empty.
        let step = b"]q\x01h\0a0h\x01q\0";
        check(&repeated(&[(b"]q\0", 1), (step, 1000), (b".", 1)]), MOST).unwrap();
    }

    #[test]
    fn places_that_are_left_out() {
        for bomb in [&b"Nr\xff\xff\xff\x7f."[..], b"Np2147483647\n.", b"Nr\xff\xff\xff\xff."] {
            assert!(is_too_large(bomb));
        }
        check(b"Nr\x01\0\0\0j\x01\0\0\0.", MOST).unwrap();
        assert!(matches!(walk(b"\x95\x03\0\0\0\0\0\0\0N.", MOST), Err(Error::Invalid(_))));
        for unknown in [&b"Np-1\n."[..], b"h\x07.", b"Np99999999999999999999999\n."] {
            assert!(matches!(walk(unknown, MOST), Err(Error::Invalid(_))));
        }
    }

    #[test]
    fn short_ones_are_left_to_their_reader() {
        check(b"a.", MOST).unwrap();
        assert!(check(b"pa.", MOST).is_err());
        check(&b"a".repeat(MOST as usize), MOST).unwrap();
        assert!(check(&b"a".repeat(MOST as usize + 1), MOST).is_err());
    }

    #[test]
    fn what_is_not_there() {
        for wrong in [&b"."[..], b"a.", b"Na.", b"t.", b"(Na.", b"(.", b"\x93.", b"\xff.", b"", b"1.", b"e.", b"\x94."]
        {
            assert!(matches!(walk(wrong, MOST), Err(Error::Invalid(_))), "{wrong:?}");
        }
        walk(b"(0N.", MOST).unwrap();
        walk(b"N(0.", MOST).unwrap();
        walk(b"(K\x011N.", MOST).unwrap();
        walk(b"N2\x86.more", MOST).unwrap();
    }
}
