//! The mutual authentication of two ranks by the shared key, before anything else is read.
//!
//! The server sends a nonce; the client answers with a nonce, its hello and an HMAC over both nonces, the hello and the session; the
//! server answers with an HMAC of its own. Nobody without the key gets more than a nonce, and a recorded handshake cannot be replayed. The
//! session is a hash of all ranks' addresses, so that ranks of another program with the same key are refused. Every record has a fixed size.

use std::io::{Read, Write};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

const MAGIC: [u8; 8] = *b"CrCo\x00\x00\x00\x01";
const NONCE: usize = 32;
const MAC: usize = 32;
const REFUSED: [u8; MAC] = [0; MAC];

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The socket of two ranks on one machine, whose messages go through shared memory.
    Local = 1,
    /// The socket for notices of two ranks that exchange messages by TCP.
    Control = 2,
    /// The socket of their messages.
    Data = 3,
}

/// Who connects, and what for: the client's introduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub rank: u32,
    pub size: u32,
    pub kind: Kind,
}

impl Hello {
    const LENGTH: usize = 12;

    fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(&self.rank.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8] = self.kind as u8;
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let kind = match bytes.get(8)? {
            1 => Kind::Local,
            2 => Kind::Control,
            3 => Kind::Data,
            _ => return None,
        };
        Some(Self { rank: number(0)?, size: number(4)?, kind })
    }
}

/// The key, and the session that it is used for.
pub(crate) struct Secret {
    key: Vec<u8>,
    session: [u8; 32],
}

impl Secret {
    pub fn new(key: &[u8], addresses: &[Vec<u8>]) -> Self {
        let mut session = Sha256::new();
        for address in addresses {
            session.update((address.len() as u64).to_le_bytes());
            session.update(address);
        }
        Self { key: key.to_vec(), session: session.finalize().into() }
    }

    fn mac(&self, role: &[u8; 6], nonces: [&[u8]; 2], hello: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        for part in [&MAGIC[..], role, nonces[0], nonces[1], hello, &self.session] {
            mac.update(part);
        }
        mac
    }

    /// The server's side. `None` for a peer that is not a rank of this session; the reason is of no use to anybody.
    pub fn serve(&self, stream: &mut (impl Read + Write)) -> Option<Hello> {
        let nonce = nonce()?;
        let mut opening = MAGIC.to_vec();
        opening.extend(nonce);
        stream.write_all(&opening).ok()?;
        let mut answer = [0; MAGIC.len() + NONCE + Hello::LENGTH + MAC];
        // The magic first, so that a foreign peer that waits for an answer is not waited for.
        stream.read_exact(&mut answer[..MAGIC.len()]).ok()?;
        if answer[..MAGIC.len()] != MAGIC {
            return None;
        }
        stream.read_exact(&mut answer[MAGIC.len()..]).ok()?;
        let (other, rest) = answer[MAGIC.len()..].split_at(NONCE);
        let (hello, given) = rest.split_at(Hello::LENGTH);
        if self.mac(b"client", [&nonce, other], hello).verify_slice(given).is_err() {
            let _ = stream.write_all(&REFUSED);
            return None;
        }
        let mac = self.mac(b"server", [other, &nonce], hello).finalize().into_bytes();
        stream.write_all(&mac).ok()?;
        Hello::decode(hello)
    }

    /// The client's side.
    ///
    /// # Errors
    /// [`Error::Refused`] if the other side has another key or is no rank; [`Error::System`] if the connection ended.
    pub fn greet(&self, stream: &mut (impl Read + Write), hello: Hello) -> Result<()> {
        let ended = |error: std::io::Error| Error::system("the handshake with another rank", error);
        let mut opening = [0; MAGIC.len() + NONCE];
        stream.read_exact(&mut opening).map_err(ended)?;
        if opening[..MAGIC.len()] != MAGIC {
            return Err(Error::Refused("is not a rank of this version of Craton".into()));
        }
        let own = nonce().ok_or_else(|| Error::system("random numbers", "the system has none"))?;
        let hello = hello.encode();
        let other = &opening[MAGIC.len()..];
        let mut answer = MAGIC.to_vec();
        answer.extend(own);
        answer.extend(hello);
        answer.extend(self.mac(b"client", [other, &own], &hello).finalize().into_bytes());
        stream.write_all(&answer).map_err(ended)?;
        let mut mac = [0; MAC];
        stream.read_exact(&mut mac).map_err(ended)?;
        if mac == REFUSED {
            return Err(Error::Refused("refuses this rank, because their keys or lists of addresses differ".into()));
        }
        self.mac(b"server", [&own, other], &hello)
            .verify_slice(&mac)
            .map_err(|_| Error::Refused("does not have the key of this program".into()))
    }
}

pub(crate) fn nonce() -> Option<[u8; NONCE]> {
    let mut bytes = [0_u8; NONCE];
    let mut filled = 0;
    while filled < NONCE {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::{Hello, Kind, Secret};
    use crate::Error;

    const HELLO: Hello = Hello { rank: 3, size: 5, kind: Kind::Data };

    fn meet(server: Secret, client: &Secret) -> (Option<Hello>, crate::Result<()>) {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let served = std::thread::spawn(move || server.serve(&mut there));
        let greeted = client.greet(&mut here, HELLO);
        drop(here);
        (served.join().unwrap(), greeted)
    }

    #[test]
    fn equal_keys_and_sessions() {
        let addresses = [b"one".to_vec(), b"two".to_vec()];
        let (served, greeted) = meet(Secret::new(b"key", &addresses), &Secret::new(b"key", &addresses));
        assert_eq!((served, greeted), (Some(HELLO), Ok(())));
    }

    #[test]
    fn other_keys_and_other_sessions_are_refused() {
        let addresses = [b"one".to_vec(), b"two".to_vec()];
        let shifted = [b"on".to_vec(), b"etwo".to_vec()];
        for client in [Secret::new(b"other", &addresses), Secret::new(b"key", &shifted)] {
            let (served, greeted) = meet(Secret::new(b"key", &addresses), &client);
            assert_eq!(served, None);
            assert!(matches!(greeted, Err(Error::Refused(_))), "{greeted:?}");
        }
    }

    #[test]
    fn foreign_bytes_end_the_handshake() {
        let secret = Secret::new(b"key", &[]);
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"", &[0; 4096], b"CrCo"] {
            let (mut here, mut there) = UnixStream::pair().unwrap();
            here.write_all(bytes).unwrap();
            here.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(secret.serve(&mut there), None);
        }
    }
}
