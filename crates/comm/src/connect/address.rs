//! The address of a rank: how others on its machine and on other machines reach it.

use serde::{Deserialize, Serialize};

use crate::auth::nonce;
use crate::error::{Error, Result};

/// The longest address that is accepted.
const MOST_BYTES: usize = 4096;
const VERSION: u8 = 1;

/// An address, which other ranks get as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    version: u8,
    /// Equal for processes that can share memory and reach each other's Unix sockets.
    pub machine: String,
    /// The name of the Unix socket, in the abstract namespace; empty on systems that have none.
    pub local: String,
    /// The names or numbers of this machine to try, in order.
    pub hosts: Vec<String>,
    /// The TCP port.
    pub port: u16,
    /// Makes addresses of different endpoints differ.
    nonce: [u8; 32],
}

impl Address {
    pub fn new(local: String, hosts: Vec<String>, port: u16) -> Result<Self> {
        let nonce = nonce().ok_or_else(|| Error::system("random numbers", "the system has none"))?;
        Ok(Self { version: VERSION, machine: machine(&nonce), local, hosts, port, nonce })
    }

    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("an address can be encoded")
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let invalid = || Error::Invalid("an address is not one that Endpoint.bind() has given".into());
        if bytes.len() > MOST_BYTES {
            return Err(invalid());
        }
        let address: Self = postcard::from_bytes(bytes).map_err(|_| invalid())?;
        if address.version == VERSION { Ok(address) } else { Err(invalid()) }
    }
}

/// What identifies the machine and the network namespace; something unique where the system does not say.
fn machine(nonce: &[u8]) -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let network = std::fs::read_link("/proc/self/ns/net").ok();
    match (boot, network) {
        (Some(boot), Some(network)) => format!("{} {}", boot.trim(), network.display()),
        _ => nonce.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses_survive_their_encoding() {
        let address = Address::new("name".into(), vec!["127.0.0.1".into()], 80).unwrap();
        assert_eq!(Address::decode(&address.encode()), Ok(address.clone()));
        for bytes in [&b""[..], b"\x02", &address.encode()[..10], &[0xff; 5000]] {
            assert!(Address::decode(bytes).is_err());
        }
    }
}
