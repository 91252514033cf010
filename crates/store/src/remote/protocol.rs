//! The messages between a client and a server, and their encoding.
//!
//! A frame is four bytes that say which protocol this is, four bytes with the length of what follows (little-endian), and one value as
//! `postcard` writes it. The first frame of a connection is a [`Hello`], answered by a [`Welcome`]. After it, a client sends a [`Call`] and
//! reads [`Answer`]s up to the one that ends the call. Descriptors travel with the first byte of an [`Answer`], one for each of its segments.
//! No type here is recursive, so nothing that is decoded can be deep.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::serving::ClientId;
use crate::api::{Attributes, Counters, DataInfo, PageId, PageSpec, Reference, SetId, SetInfo, SetOptions};
use crate::error::Error;

/// What every frame begins with.
pub const MAGIC: [u8; 4] = *b"CrSt";
/// The version of this protocol; both sides must have the same.
pub const VERSION: u32 = 2;
/// Bytes of a frame before its value.
pub const HEADER: usize = 8;
/// The most bytes that the value of a frame may have.
pub const MOST: usize = 64 << 20;
/// The most bytes of the first frame each way.
pub const MOST_HELLO: usize = 4096;
/// The most descriptors with one frame; the kernel allows 253.
pub const MOST_DESCRIPTORS: usize = 128;
/// The most extents that one call may ask for.
pub const MOST_EXTENTS: usize = 1 << 16;

/// The most pages that one call may pin; a client cuts longer lists.
pub const MOST_PINS: usize = 1 << 12;

/// The name that a server gives to something that a client holds; unique for a client.
pub type Token = u64;

/// Bytes, encoded as one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Run;
        impl<'de> Visitor<'de> for Run {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
                Ok(Bytes(bytes))
            }
        }
        deserializer.deserialize_bytes(Run)
    }
}

/// A list of values that are small when they are encoded and large in memory: it is refused beyond `MOST` values, and its memory grows as
/// values arrive.
fn bounded<'de, D, T, const MOST: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<T, const MOST: usize>(std::marker::PhantomData<T>);
    impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for List<T, MOST> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MOST} values")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::with_capacity(values.size_hint().unwrap_or(0).min(1024));
            while let Some(value) = values.next_element()? {
                if list.len() == MOST {
                    return Err(A::Error::custom("a list is too long"));
                }
                list.push(value);
            }
            Ok(list)
        }
    }
    deserializer.deserialize_seq(List::<T, MOST>(std::marker::PhantomData))
}

/// The most values of a list of keys, pages or releases in one call; a client cuts longer ones.
pub const MOST_VALUES: usize = 1 << 18;

/// A client's first frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The version that it speaks.
    pub version: u32,
    /// For a further connection of a client that is known: its name and the key that it was given.
    pub join: Option<(ClientId, u64)>,
}

/// A server's first frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Welcome {
    /// The client may go on.
    Accepted {
        /// Its name.
        client: ClientId,
        /// What its further connections must show.
        key: u64,
    },
    /// The connection ends here; why.
    Refused(String),
}

/// A call of a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// How many releases the client has sent with calls before this one, on any connection: they are done before this call is.
    pub before: u64,
    /// What it does not hold any more; done before the request.
    #[serde(deserialize_with = "bounded::<_, _, MOST_VALUES>")]
    pub releases: Vec<Release>,
    /// What it asks.
    pub request: Request,
}

/// Something that a client gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Release {
    /// An extent that it did not seal.
    Extent(Token),
    /// A pin.
    Pin(Token),
    /// A reservation.
    Reservation(Token),
    /// One use of a set.
    Set(SetId),
}

/// What a client asks: the methods of [`Home`](crate::Home).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// Nothing; the releases are what matters.
    Nothing,
    /// Make a set: [`Reply::Set`].
    CreateSet(SetOptions),
    /// Find a set by name: [`Reply::Found`].
    FindSet(String),
    /// Use a set: [`Reply::Done`].
    RetainSet(SetId),
    /// Change attributes: [`Reply::Done`].
    SetAttributes(SetId, Attributes),
    /// Drop a set: [`Reply::Done`].
    DropSet(SetId),
    /// Extents of these lengths in bytes: [`Reply::Extents`], after a [`Reply::Grant`] for each segment that is new.
    Allocate {
        /// What for.
        set: SetId,
        /// Bytes of each.
        #[serde(deserialize_with = "bounded::<_, _, MOST_EXTENTS>")]
        lengths: Vec<u64>,
    },
    /// The answer to [`Reply::Grant`]: mapped for writing, or why not.
    Granted(Result<(), String>),
    /// Make a page: [`Reply::Page`].
    Seal(Box<Sealing>),
    /// Pin pages, all of them or none: [`Reply::Pinned`], in parts.
    Pin(#[serde(deserialize_with = "bounded::<_, _, MOST_PINS>")] Vec<PageId>),
    /// Read pages soon: [`Reply::Done`].
    Prefetch(#[serde(deserialize_with = "bounded::<_, _, MOST_VALUES>")] Vec<PageId>),
    /// The pages of a set: [`Reply::Pages`], in parts.
    Pages(SetId),
    /// Pages by key: [`Reply::FoundPages`].
    FindPages(SetId, #[serde(deserialize_with = "bounded::<_, _, MOST_VALUES>")] Vec<Bytes>),
    /// Drop a page: [`Reply::Done`].
    DropPage(PageId),
    /// Keep memory free: [`Reply::Reserved`].
    Reserve {
        /// The least that is useful, in bytes.
        least: u64,
        /// Bytes wanted.
        bytes: u64,
    },
    /// All sets: [`Reply::Sets`], in parts.
    Describe,
    /// What was counted: [`Reply::Counters`].
    Counters,
}

/// A page to be made; see [`PageSpec`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sealing {
    /// The set.
    pub set: SetId,
    /// Unique in its set, or none.
    pub key: Option<Bytes>,
    /// The header of `craton_wire`.
    pub header: Bytes,
    /// The buffers that the header speaks of.
    #[serde(deserialize_with = "bounded::<_, _, { 1 << 21 }>")]
    pub buffers: Vec<Reference>,
    /// Rows.
    pub rows: u64,
    /// What its maker knows of its contents.
    pub statistics: Bytes,
    /// Nanoseconds that making it again would take.
    pub rebuild: u64,
    /// The extents that the page owns from now on.
    #[serde(deserialize_with = "bounded::<_, _, { 1 << 21 }>")]
    pub extents: Vec<Token>,
}

impl Sealing {
    /// The page that this describes, and the extents' names.
    #[must_use]
    pub fn into_spec(self) -> (PageSpec, Vec<Token>) {
        let spec = PageSpec {
            key: self.key.map(|key| key.0),
            header: self.header.0,
            buffers: self.buffers,
            rows: self.rows,
            statistics: self.statistics.0,
            rebuild: self.rebuild,
        };
        (spec, self.extents)
    }

    /// The message that asks for this page.
    #[must_use]
    pub fn new(set: SetId, spec: PageSpec, extents: Vec<Token>) -> Self {
        let PageSpec { key, header, buffers, rows, statistics, rebuild } = spec;
        let (key, header, statistics) = (key.map(Bytes), Bytes(header), Bytes(statistics));
        Self { set, key, header, buffers, rows, statistics, rebuild, extents }
    }
}

/// A page that is pinned for a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PinnedPage {
    /// The pin.
    pub pin: Token,
    /// What it is.
    pub info: DataInfo,
    /// The header of `craton_wire`.
    pub header: Bytes,
    /// Its buffers.
    pub buffers: Vec<Reference>,
}

/// A segment whose descriptor comes with the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// Its name.
    pub segment: u64,
    /// Bytes.
    pub length: u64,
}

/// A frame of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    /// Segments that this connection has not heard of, in the order of the frame's descriptors.
    #[serde(deserialize_with = "bounded::<_, _, MOST_DESCRIPTORS>")]
    pub segments: Vec<Announced>,
    /// Segments that are gone: whoever has them mapped may unmap them.
    pub gone: Vec<u64>,
    /// The reply.
    pub reply: Reply,
}

/// What a server says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Reply {
    /// It was done.
    Done,
    /// It was not done.
    Failed(Error),
    /// Only segments; the call's answer goes on.
    More,
    /// The frame's segment is to be mapped for writing and answered with [`Request::Granted`]; the call's answer goes on.
    Grant,
    /// A set was made.
    Set(SetId),
    /// The set of that name.
    Found(Option<SetId>),
    /// Extents, in the order that they were asked for.
    Extents(Vec<(Token, Reference)>),
    /// The page that was made or found.
    Page(DataInfo),
    /// Pages that are pinned, in the order that they were asked for, and whether the answer goes on. When it goes on with
    /// [`Reply::Failed`], none of them is.
    Pinned(Vec<PinnedPage>, bool),
    /// Pages, and whether the answer goes on.
    Pages(Vec<DataInfo>, bool),
    /// The pages with these keys.
    FoundPages(Vec<Option<DataInfo>>),
    /// A reservation and its bytes.
    Reserved(Token, u64),
    /// Sets, and whether the answer goes on.
    Sets(Vec<SetInfo>, bool),
    /// What was counted.
    Counters(Counters),
}

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// The other side has closed it, between two frames.
    #[error("the other side has gone")]
    Closed,
    /// The other side has closed it in the middle of a frame.
    #[error("the other side has gone in the middle of a message")]
    Truncated,
    /// Nothing came for as long as was allowed.
    #[error("nothing came in time")]
    Silent,
    /// A frame began and did not end for as long as was allowed.
    #[error("a message did not end in time")]
    Stalled,
    /// Something else is spoken there.
    #[error("a message begins with {0:02x?} instead of {MAGIC:02x?}: this is not the protocol of a store")]
    Magic([u8; 4]),
    /// A frame that is too large.
    #[error("a message of {length} bytes; the most here is {most}")]
    Oversize {
        /// Bytes that it has or claims.
        length: u64,
        /// The most.
        most: u64,
    },
    /// A frame that makes no sense.
    #[error("a message cannot be decoded: {0}")]
    Malformed(String),
    /// Fewer descriptors arrived than were announced.
    #[error("{announced} descriptors were sent and {arrived} arrived: this process may have too many open files")]
    Descriptors {
        /// Announced.
        announced: usize,
        /// Arrived.
        arrived: usize,
    },
    /// The system refused.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

/// The value of a frame.
///
/// # Errors
/// [`Broken::Malformed`] when the bytes are not one such value, whole and nothing else.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Broken> {
    let (value, rest) = postcard::take_from_bytes(bytes).map_err(|e| Broken::Malformed(e.to_string()))?;
    if rest.is_empty() { Ok(value) } else { Err(Broken::Malformed(format!("{} bytes too many", rest.len()))) }
}

/// A whole frame of `value`, written over what `frame` has.
///
/// # Errors
/// [`Broken::Oversize`] beyond `most` bytes.
pub fn encode<T: Serialize>(value: &T, frame: &mut Vec<u8>, most: usize) -> Result<(), Broken> {
    frame.clear();
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&[0; 4]);
    *frame = postcard::to_extend(value, std::mem::take(frame)).map_err(|e| Broken::Malformed(e.to_string()))?;
    let length = frame.len() - HEADER;
    if length > most {
        return Err(Broken::Oversize { length: length as u64, most: most as u64 });
    }
    // Not beyond 32 bits: `most` is not.
    frame[4..HEADER].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// The length of a frame's value, from the frame's first [`HEADER`] bytes.
///
/// # Errors
/// [`Broken::Magic`], [`Broken::Oversize`].
pub fn frame_length(header: [u8; HEADER], most: usize) -> Result<usize, Broken> {
    let [a, b, c, d, length @ ..] = header;
    if [a, b, c, d] != MAGIC {
        return Err(Broken::Magic([a, b, c, d]));
    }
    let length = u32::from_le_bytes(length);
    if length as usize > most {
        return Err(Broken::Oversize { length: u64::from(length), most: most as u64 });
    }
    Ok(length as usize)
}
