//! The messages between a client and a server, and their encoding.
//!
//! A frame is a magic number of four bytes, the length of the value (four bytes, little-endian), and one value encoded by `postcard`. The first
//! frame of a connection is a [`Hello`], answered by a [`Welcome`]. After this handshake, a client sends a [`Call`] and reads [`Answer`]s up to
//! the one that ends the call. Descriptors are sent with the first byte of an [`Answer`], one for each of its segments. No type here is
//! recursive, so decoded values cannot be deeply nested.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::serving::ClientId;
use crate::api::{Attributes, Counters, DataInfo, PageSpec, Reference, SetInfo, SetOptions};
use crate::error::Error;
use crate::ids::{PageId, SetId};

/// The magic number of every frame.
pub const MAGIC: [u8; 4] = *b"CrSt";
/// The version of this protocol; both sides must have the same.
pub const VERSION: u32 = 3;
/// Bytes of a frame before its value.
pub const HEADER: usize = 8;
/// The most bytes of a frame's value.
pub const MOST: usize = 64 << 20;
/// The most bytes of the first frame in each direction.
pub const MOST_HELLO: usize = 4096;
/// The most descriptors with one frame; the kernel allows 253.
pub const MOST_DESCRIPTORS: usize = 128;
/// The most extents in one call.
pub const MOST_EXTENTS: usize = 1 << 16;

/// The most pages that one call may pin; a client splits longer lists.
pub const MOST_PINS: usize = 1 << 12;

/// The server's identifier of an extent, pin or reservation that a client holds; unique for a client.
pub type Token = u64;

/// Bytes, encoded contiguously and not value by value.
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

/// Decode a list of values that may be small when encoded and large in memory. More than `MOST` values are refused, and memory grows only as
/// values are decoded.
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

/// The most values of a list of keys, pages or releases in one call; a client splits longer lists.
pub const MOST_VALUES: usize = 1 << 18;

/// A client's first frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Its protocol version.
    pub version: u32,
    /// For a further connection of the same client: its id and the key that it received.
    pub join: Option<(ClientId, u64)>,
}

/// A server's first frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Welcome {
    /// The handshake succeeded.
    Accepted {
        /// The client's id.
        client: ClientId,
        /// The key that its further connections must present.
        key: u64,
    },
    /// The connection is refused, for this reason.
    Refused(String),
}

/// A call of a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// How many releases the client has sent with earlier calls on any connection. The server performs them before this call.
    pub before: u64,
    /// What the client releases; performed before the request.
    #[serde(deserialize_with = "bounded::<_, _, MOST_VALUES>")]
    pub releases: Vec<Release>,
    /// The request.
    pub request: Request,
}

/// Something that a client releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Release {
    /// An unsealed extent.
    Extent(Token),
    /// A pin.
    Pin(Token),
    /// A reservation.
    Reservation(Token),
    /// One use of a set.
    Set(SetId),
}

/// The requests of a client: the methods of [`Home`](crate::Home).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// No request; the call only transmits releases.
    Nothing,
    /// Create a set: [`Reply::Set`].
    CreateSet(SetOptions),
    /// Find a set by name: [`Reply::Found`].
    FindSet(String),
    /// Add a use of a set: [`Reply::Done`].
    RetainSet(SetId),
    /// Name a set: [`Reply::Done`].
    NameSet(SetId, String),
    /// Change attributes: [`Reply::Done`].
    SetAttributes(SetId, Attributes),
    /// Drop a set: [`Reply::Done`].
    DropSet(SetId),
    /// Allocate extents of these lengths in bytes: [`Reply::Extents`], after a [`Reply::Grant`] for each new segment.
    Allocate {
        /// The set of the pages.
        set: SetId,
        /// Bytes of each.
        #[serde(deserialize_with = "bounded::<_, _, MOST_EXTENTS>")]
        lengths: Vec<u64>,
    },
    /// Acknowledge a [`Reply::Grant`]: the segment was mapped for writing, or the error.
    Granted(Result<(), String>),
    /// Seal a page: [`Reply::Page`].
    Seal(Box<Sealing>),
    /// Pin pages, all of them or none: [`Reply::Pinned`], in parts.
    Pin(#[serde(deserialize_with = "bounded::<_, _, MOST_PINS>")] Vec<PageId>),
    /// Load pages in the background: [`Reply::Done`].
    Prefetch(#[serde(deserialize_with = "bounded::<_, _, MOST_VALUES>")] Vec<PageId>),
    /// The pages of a set: [`Reply::Pages`], in parts.
    Pages(SetId),
    /// Pages by key: [`Reply::FoundPages`].
    FindPages(SetId, #[serde(deserialize_with = "bounded::<_, _, MOST_VALUES>")] Vec<Bytes>),
    /// Drop a page: [`Reply::Done`].
    DropPage(PageId),
    /// Reserve memory: [`Reply::Reserved`].
    Reserve {
        /// The fewest bytes that are accepted.
        least: u64,
        /// Bytes wanted.
        bytes: u64,
    },
    /// All sets: [`Reply::Sets`], in parts.
    Describe,
    /// The counters: [`Reply::Counters`].
    Counters,
}

/// A page to be sealed; see [`PageSpec`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sealing {
    /// The set.
    pub set: SetId,
    /// Unique in its set, or none.
    pub key: Option<Bytes>,
    /// The header of `craton_wire`.
    pub header: Bytes,
    /// The buffers that the header describes.
    #[serde(deserialize_with = "bounded::<_, _, { 1 << 21 }>")]
    pub buffers: Vec<Reference>,
    /// Rows.
    pub rows: u64,
    /// Bytes that describe its contents.
    pub statistics: Bytes,
    /// Nanoseconds that making it again would take.
    pub rebuild: u64,
    /// The client's extents that the page will own.
    #[serde(deserialize_with = "bounded::<_, _, { 1 << 21 }>")]
    pub extents: Vec<Token>,
}

impl Sealing {
    /// The page specification, and the tokens of the extents.
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

    /// The message for sealing this page.
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
    /// Its metadata.
    pub info: DataInfo,
    /// The header of `craton_wire`.
    pub header: Bytes,
    /// References to its buffers.
    pub buffers: Vec<Reference>,
}

/// A segment whose descriptor is sent with the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// Its identifier.
    pub segment: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// A frame of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    /// Segments that were not sent on this connection before, in the order of the frame's descriptors.
    #[serde(deserialize_with = "bounded::<_, _, MOST_DESCRIPTORS>")]
    pub segments: Vec<Announced>,
    /// Segments that the server has dropped: the client may unmap them.
    pub gone: Vec<u64>,
    /// The reply.
    pub reply: Reply,
}

/// The replies of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Reply {
    /// The request succeeded.
    Done,
    /// The request failed.
    Failed(Error),
    /// The frame only transmits segments; the answer continues.
    More,
    /// The client must map the frame's segment for writing and acknowledge it with [`Request::Granted`]; the answer continues.
    Grant,
    /// A set was created.
    Set(SetId),
    /// The set of that name.
    Found(Option<SetId>),
    /// Extents, in the requested order.
    Extents(Vec<(Token, Reference)>),
    /// The page that was sealed, or the existing page with the same key.
    Page(DataInfo),
    /// Pinned pages in the requested order, and whether the answer continues. If it continues with [`Reply::Failed`], none of them is pinned.
    Pinned(Vec<PinnedPage>, bool),
    /// Pages, and whether the answer continues.
    Pages(Vec<DataInfo>, bool),
    /// The pages with these keys.
    FoundPages(Vec<Option<DataInfo>>),
    /// A reservation and its bytes.
    Reserved(Token, u64),
    /// Sets, and whether the answer continues.
    Sets(Vec<SetInfo>, bool),
    /// The counters.
    Counters(Counters),
}

/// Why a connection has failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// The peer closed it between two frames.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer closed it within a frame.
    #[error("the peer closed the connection in the middle of a message")]
    Truncated,
    /// No frame began within the timeout.
    #[error("timed out waiting for a message")]
    Silent,
    /// A frame began and was not completed within the timeout.
    #[error("timed out in the middle of a message")]
    Stalled,
    /// The peer uses another protocol.
    #[error("a message begins with {0:02x?} instead of {MAGIC:02x?}: this is not the protocol of a store")]
    Magic([u8; 4]),
    /// A frame that is too large.
    #[error("a message of {length} bytes exceeds the limit of {most}")]
    Oversize {
        /// Bytes that it has or claims.
        length: u64,
        /// The most.
        most: u64,
    },
    /// A frame that cannot be decoded, or that violates the protocol.
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
    /// An error of the system.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

/// Decode the value of a frame.
///
/// # Errors
/// [`Broken::Malformed`] when the bytes are not exactly one such value.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Broken> {
    let (value, rest) = postcard::take_from_bytes(bytes).map_err(|e| Broken::Malformed(e.to_string()))?;
    if rest.is_empty() { Ok(value) } else { Err(Broken::Malformed(format!("{} bytes too many", rest.len()))) }
}

/// Encode a frame of `value` into `frame`, which is overwritten.
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
    // The length fits into 32 bits, because `most` does.
    frame[4..HEADER].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Decode the length of a frame's value from the frame's first [`HEADER`] bytes.
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
