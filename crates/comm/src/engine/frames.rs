//! The frames of a stream: a head of fixed size, and a payload.

/// The class of a message, which is matched separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Sent by `send`, matched by tag.
    Point = 0,
    /// Part of a collective, matched by order; number and signature are checked.
    Collective = 1,
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message; the payload is its bytes.
    Whole = 0,
    /// An offer of memory: the payload is the addresses and lengths of the pieces, which the receiver copies itself.
    Offer = 1,
    /// The pieces of the offer with this id have been copied.
    Taken = 2,
}

pub(crate) const HEAD: usize = 48;

/// The most pieces of an offer.
pub(crate) const MOST_OFFERED: usize = 256;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    pub class: Class,
    /// For a collective: a hash of what was called.
    pub signature: u32,
    /// The group.
    pub context: u64,
    /// For a message its tag; for a collective the number of the call, and the step in it.
    pub tag: u64,
    /// The length of the message in bytes.
    pub length: u64,
    /// The id of an offer.
    pub id: u64,
}

impl Head {
    pub fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[0] = self.kind as u8;
        bytes[1] = self.class as u8;
        bytes[4..8].copy_from_slice(&self.signature.to_le_bytes());
        for (at, number) in [(8, self.context), (16, self.tag), (24, self.length), (32, self.id)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// `None` for bytes that are not a head.
    pub fn decode(bytes: &[u8; HEAD]) -> Option<Self> {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let kind = match bytes[0] {
            0 => Kind::Whole,
            1 => Kind::Offer,
            2 => Kind::Taken,
            _ => return None,
        };
        let class = match bytes[1] {
            0 => Class::Point,
            1 => Class::Collective,
            _ => return None,
        };
        let signature = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        let (length, rest) = (number(24), number(40));
        let valid = bytes[2] == 0 && bytes[3] == 0 && rest == 0 && length < 1 << 62;
        valid.then_some(Self { kind, class, signature, context: number(8), tag: number(16), length, id: number(32) })
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, HEAD, Head, Kind};

    #[test]
    fn heads_survive_their_encoding() {
        let head = Head {
            kind: Kind::Offer,
            class: Class::Collective,
            signature: 0xdead_beef,
            context: u64::MAX,
            tag: 1 << 63,
            length: 12345,
            id: 9,
        };
        assert_eq!(Head::decode(&head.encode()), Some(head));
        for (at, value) in [(0, 3), (1, 2), (2, 1), (31, 0x40), (47, 1)] {
            let mut bytes = head.encode();
            bytes[at] = value;
            assert_eq!(Head::decode(&bytes), None, "byte {at}");
        }
        assert_eq!(Head::decode(&[0xff; HEAD]), None);
    }
}
