//! Checks the nesting depth of a pickle by its opcodes, before it is unpickled.
//!
//! Unpickling does not recurse, so a pickle of one megabyte can make tuples nested a million deep. Using them does recurse: hashing such a
//! tuple, or freeing a chain of objects of C types, overflows the stack and ends the process. Moreover, an opcode of five bytes that stores a
//! value at a high memo index makes the unpickler allocate and clear all entries below. [`check`] interprets the opcodes as the unpickler does,
//! and refuses both.
//!
//! The depth counts nested tuples, containers and arguments of constructors. A memo reference counts with the depth that the value had when it
//! was memoized: tuples are complete then, while lists, dicts and the attributes of objects are filled later. A list of many objects, each of
//! which refers to the one before, is therefore not deep; Python's own recursion checks cover those.

use crate::error::{Result, at_most, invalid};

/// Memo indices that may be skipped: picklers number memoized values consecutively.
const SKIPPED: usize = 1 << 10;
/// An empty entry of the memo.
const NOTHING: u32 = u32::MAX;
/// Initial capacity of stack and memo, enough for a small pickle.
const USUAL: usize = 32;

/// Check that no value of a pickle nests deeper than `most`, and that the pickle does not claim memo entries or bytes that it does not have.
/// Bytes after its end are ignored. A pickle that is too short to nest that deep, and has no opcode that could claim much memory, is not
/// checked further.
///
/// # Errors
/// [`TooLarge`](crate::Error::TooLarge) when it nests deeper, or skips memo indices; [`Invalid`](crate::Error::Invalid) when it is truncated,
/// uses a value that does not exist, or is not a pickle.
pub fn check(bytes: &[u8], most: u32) -> Result<()> {
    // Each level takes at least one byte.
    if u32::try_from(bytes.len()).is_ok_and(|length| length <= most)
        && !bytes.iter().any(|byte| CLAIMING[usize::from(*byte)])
    {
        return Ok(());
    }
    walk(bytes, most)
}

/// The opcodes for which the unpickler allocates before it reads: memo indices, and lengths of eight bytes.
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

/// The state of an unpickler, with the depth of each value instead of the value.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    most: u32,
    stack: Vec<u32>,
    /// The height of the stack at each open mark.
    marks: Vec<usize>,
    memo: Vec<u32>,
    /// Number of memo entries that have a value.
    remembered: usize,
}

impl Walk<'_> {
    /// Interpret one opcode; returns whether another one follows.
    fn step(&mut self) -> Result<bool> {
        let [code] = self.array::<1>()?;
        match code {
            b'.' => {
                self.pop()?;
                return Ok(false);
            }
            // Scalars, by the operand of the opcode: none, a fixed number of bytes, a line, or a length and that many bytes.
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
            // Opcodes that concern the stream, or do not change the top of the stack.
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
            // Containers: created empty, created with items, and filled.
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
            // Objects, from a callable or class and its arguments.
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
            _ => invalid!("unknown pickle opcode {code:#04x} at byte {}", self.at - 1),
        }
        Ok(true)
    }

    // ---- the bytes ----

    fn skip(&mut self, count: usize) -> Result<()> {
        let left = self.bytes.len() - self.at;
        if count > left {
            invalid!("the pickle is truncated: {count} bytes should follow byte {}, and {left} do", self.at);
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
            invalid!("the pickle is truncated: the line that starts at byte {start} has no end");
        };
        self.at += length + 1;
        Ok(&self.bytes[start..start + length])
    }

    fn number(&mut self) -> Result<usize> {
        let line = self.line()?;
        match std::str::from_utf8(line).ok().and_then(|text| text.trim().parse().ok()) {
            Some(number) => Ok(number),
            None => invalid!("invalid memo index {:?} in a pickle", line.escape_ascii().to_string()),
        }
    }

    // ---- the stack ----

    fn leaf(&mut self, bytes: usize) -> Result<()> {
        self.skip(bytes)?;
        self.stack.push(0);
        Ok(())
    }

    /// The height of the stack at the last mark, below which values do not belong to it.
    fn fence(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&mut self) -> Result<&mut u32> {
        let (fence, at) = (self.fence(), self.at);
        match self.stack.get_mut(fence..).and_then(<[u32]>::last_mut) {
            Some(top) => Ok(top),
            None => invalid!("a pickle opcode takes a value from an empty stack, at byte {at}"),
        }
    }

    fn pop(&mut self) -> Result<u32> {
        let depth = *self.top()?;
        self.stack.pop();
        Ok(depth)
    }

    /// Pop the values since the last mark, and the mark; returns the greatest depth of these values, or 0 without any.
    fn since_mark(&mut self) -> Result<u32> {
        let Some(mark) = self.marks.pop() else {
            invalid!("a pickle opcode needs a mark, and there is none, at byte {}", self.at);
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

    /// Replace the last values by a value that contains them.
    fn wrap(&mut self, count: usize) -> Result<()> {
        let mut deepest = 0;
        for _ in 0..count {
            deepest = self.pop()?.max(deepest);
        }
        self.push_around(deepest)
    }

    /// Put the last values into the container before them.
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
            at_most("a memo index of a pickle", place as u64, (self.remembered + SKIPPED) as u64)?;
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
            _ => invalid!("a pickle refers to memo index {place}, which has no value"),
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
        // Each tuple contains the one before, which it takes from the memo.
        let step = b"0h\0\x85q\0";
        assert!(is_too_large(&repeated(&[(b")q\0", 1), (step, 1000), (b".", 1)])));
        check(&repeated(&[(b")q\0", 1), (step, 50), (b".", 1)]), MOST).unwrap();
        // Lists are memoized while they are empty.
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
