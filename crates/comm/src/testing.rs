//! For the tests of this crate: groups whose ranks are threads.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::{Control, Endpoint, EndpointOptions, Group, Membership, Piece, Result};

pub(crate) const KEY: &[u8] = b"the key of a test";

/// Run a program on threads that are ranks; return what they return, by rank.
pub(crate) fn on_ranks<T: Send + 'static>(
    size: usize,
    tcp: bool,
    program: impl Fn(Group) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let options = EndpointOptions { host: None, tcp };
    let endpoints: Vec<Endpoint> = (0..size).map(|_| Endpoint::bind(&options).unwrap()).collect();
    let addresses: Vec<Vec<u8>> = endpoints.iter().map(|endpoint| endpoint.address().to_vec()).collect();
    let shared = Arc::new((program, addresses, Mutex::new(())));
    let threads: Vec<_> = (endpoints.into_iter().enumerate())
        .map(|(rank, endpoint)| {
            let shared = shared.clone();
            std::thread::spawn(move || {
                let patience = Duration::from_secs(60);
                let membership = Membership { rank, addresses: &shared.1, key: KEY, patience };
                (shared.0)(endpoint.connect(&membership, &mut || true).unwrap())
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// Make a call without a timeout.
pub(crate) fn call<T>(work: impl FnOnce(&mut Control<'_>) -> Result<T>) -> Result<T> {
    work(&mut Control { timeout: None, hook: &mut || true })
}

/// Make a call with a timeout.
pub(crate) fn call_for<T>(timeout: Duration, work: impl FnOnce(&mut Control<'_>) -> Result<T>) -> Result<T> {
    work(&mut Control { timeout: Some(timeout), hook: &mut || true })
}

/// Bytes that differ by rank and place.
pub(crate) fn pattern(rank: usize, length: usize) -> Vec<u8> {
    (0..length).map(|place| (rank * 31 + place * 7 + place / 251) as u8).collect()
}

pub(crate) fn pieces(bytes: &[u8]) -> Vec<Piece> {
    // In two pieces, so that their border is somewhere.
    let (left, right) = bytes.split_at(bytes.len() / 3);
    vec![Piece::of(left), Piece::of(right)]
}
