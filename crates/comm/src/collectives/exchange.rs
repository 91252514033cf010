//! Collectives in which every rank sends to every other one: allgather and alltoall.
//!
//! In small groups, and for large values, directly. In large groups, small values travel together in a logarithmic number of messages
//! (Bruck), and with them the lengths of the large ones.

use super::SMALL_GROUP;
use crate::engine::{Request, Stop, Target};
use crate::error::{Error, Result};
use crate::group::{Call, Collective, Control, Group};
use crate::memory::{Block, Piece, total};

/// The most bytes of a value that travels with others.
const TOGETHER: usize = 4 << 10;
/// The length that stands for a value that is sent directly.
const SEPARATE: u32 = u32::MAX;

/// The values of all ranks, by rank; `None` in the place of the rank's own.
pub type Values = Vec<Option<Block>>;

impl Group {
    /// Return the values of all ranks.
    ///
    /// # Errors
    /// Those of all calls.
    pub fn allgather(&self, pieces: &[Piece], control: &mut Control<'_>) -> Result<Values> {
        self.collective(Collective::Allgather, &[], control, |call| {
            if call.size() > SMALL_GROUP {
                return allgather_together(call, pieces);
            }
            let requests = receive_from_all(call)?;
            for other in call.others() {
                call.send(other, 0, pieces)?;
            }
            collected(call, requests)
        })
    }

    /// Send a value to each rank; return those of all ranks for this one. The pieces for the rank itself are ignored.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is not a value for each rank, and those of all calls.
    pub fn alltoall(&self, values: &[Vec<Piece>], control: &mut Control<'_>) -> Result<Values> {
        if values.len() != self.size() {
            return Err(Error::Invalid(format!(
                "alltoall takes a value for each of the {} ranks, got {}",
                self.size(),
                values.len()
            )));
        }
        self.collective(Collective::Alltoall, &[], control, |call| {
            if call.size() > SMALL_GROUP {
                return alltoall_together(call, values);
            }
            let requests = receive_from_all(call)?;
            for other in call.others() {
                call.send(other, 0, &values[other])?;
            }
            collected(call, requests)
        })
    }
}

fn receive_from_all(call: &mut Call<'_, '_>) -> std::result::Result<Vec<(usize, Request)>, Stop> {
    call.others().map(|other| Ok((other, call.receive(other, 0, Target::Block)?))).collect()
}

fn collected(call: &mut Call<'_, '_>, requests: Vec<(usize, Request)>) -> std::result::Result<Values, Stop> {
    call.wait_all()?;
    let mut values: Values = (0..call.size()).map(|_| None).collect();
    for (other, request) in requests {
        values[other] = Some(call.engine.take_block(request));
    }
    Ok(values)
}

/// A value on its way: who sent it, whom it is for, and its bytes, unless they are sent directly.
struct Parcel {
    from: u32,
    to: u32,
    bytes: Option<Vec<u8>>,
}

impl Parcel {
    fn new(from: usize, to: usize, pieces: &[Piece]) -> std::result::Result<Self, Stop> {
        let small = total(pieces) <= TOGETHER;
        let bytes = if small { Some(Block::copy_of(pieces)?.bytes().to_vec()) } else { None };
        Ok(Self { from: from as u32, to: to as u32, bytes })
    }

    fn write(&self, target: &mut Vec<u8>) {
        let length = self.bytes.as_ref().map_or(SEPARATE, |bytes| bytes.len() as u32);
        for number in [self.from, self.to, length] {
            target.extend(number.to_le_bytes());
        }
        target.extend(self.bytes.iter().flatten());
    }
}

fn malformed(rank: usize) -> Stop {
    Stop::Fault(crate::state::Fault::Failed { rank, reason: "it sent a malformed message".into() })
}

/// The parcels of a message; `None` if it is malformed.
fn unpacked(mut bytes: &[u8], size: usize) -> Option<Vec<Parcel>> {
    let mut parcels = Vec::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at_checked(12)?;
        let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let (from, to, length) = (number(0), number(4), number(8));
        if from as usize >= size || to as usize >= size {
            return None;
        }
        let (value, rest) = rest.split_at_checked(if length == SEPARATE { 0 } else { length as usize })?;
        parcels.push(Parcel { from, to, bytes: (length != SEPARATE).then(|| value.to_vec()) });
        bytes = rest;
    }
    Some(parcels)
}

fn pass_on(
    call: &mut Call<'_, '_>,
    to: usize,
    from: usize,
    round: usize,
    parcels: &[&Parcel],
) -> std::result::Result<Vec<Parcel>, Stop> {
    let mut message = Vec::new();
    parcels.iter().for_each(|parcel| parcel.write(&mut message));
    let sent = call.send(to, round, &[Piece::of(&message)])?;
    let received = call.receive(from, round, Target::Block)?;
    call.wait(&[sent, received])?;
    let block = call.engine.take_block(received);
    unpacked(block.bytes(), call.size()).ok_or_else(|| malformed(from))
}

fn allgather_together(call: &mut Call<'_, '_>, pieces: &[Piece]) -> std::result::Result<Values, Stop> {
    let (rank, size) = (call.rank, call.size());
    let mut known = vec![Parcel::new(rank, rank, pieces)?];
    let (mut distance, mut round) = (1, 0);
    while distance < size {
        // This rank knows the values of the `distance` ranks from itself on.
        let count = distance.min(size - distance);
        let given: Vec<&Parcel> = known[..count].iter().collect();
        let arrived = pass_on(call, (rank + size - distance) % size, (rank + distance) % size, round, &given)?;
        known.extend(arrived);
        (distance, round) = (distance * 2, round + 1);
    }
    let own = pieces.to_vec();
    complete(call, known, |_| own.clone())
}

fn alltoall_together(call: &mut Call<'_, '_>, values: &[Vec<Piece>]) -> std::result::Result<Values, Stop> {
    let (rank, size) = (call.rank, call.size());
    let mut here: Vec<Parcel> = Vec::new();
    for other in call.others() {
        here.push(Parcel::new(rank, other, &values[other])?);
    }
    let (mut distance, mut round) = (1, 0);
    while distance < size {
        // A parcel travels by the binary digits of the distance to its receiver.
        let travels = |parcel: &Parcel| ((parcel.to as usize + size - rank) % size) & distance != 0;
        let (given, kept): (Vec<Parcel>, Vec<Parcel>) = here.into_iter().partition(travels);
        here = kept;
        let given: Vec<&Parcel> = given.iter().collect();
        here.extend(pass_on(call, (rank + distance) % size, (rank + size - distance) % size, round, &given)?);
        (distance, round) = (distance * 2, round + 1);
    }
    complete(call, here, |to| values[to].clone())
}

/// Send and receive the large values, now that everybody knows of them.
fn complete(
    call: &mut Call<'_, '_>,
    parcels: Vec<Parcel>,
    pieces: impl Fn(usize) -> Vec<Piece>,
) -> std::result::Result<Values, Stop> {
    const STEP: usize = 100;
    let mut values: Values = (0..call.size()).map(|_| None).collect();
    let mut requests = Vec::new();
    for parcel in parcels {
        let from = parcel.from as usize;
        if from == call.rank {
            continue;
        }
        match parcel.bytes {
            Some(bytes) => values[from] = Some(Block::copy_of(&[Piece::of(&bytes)])?),
            None => requests.push((from, call.receive(from, STEP, Target::Block)?)),
        }
    }
    for other in call.others() {
        let pieces = pieces(other);
        if total(&pieces) > TOGETHER {
            call.send(other, STEP, &pieces)?;
        }
    }
    call.wait_all()?;
    for (from, request) in requests {
        values[from] = Some(call.engine.take_block(request));
    }
    if (0..call.size()).any(|rank| rank != call.rank && values[rank].is_none()) {
        return Err(malformed(call.others().next().unwrap_or(call.rank)));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::{Parcel, unpacked};

    #[test]
    fn parcels_survive_their_packing() {
        let mut bytes = Vec::new();
        for parcel in [
            Parcel { from: 1, to: 2, bytes: Some(vec![1, 2, 3]) },
            Parcel { from: 0, to: 1, bytes: None },
            Parcel { from: 2, to: 2, bytes: Some(vec![]) },
        ] {
            parcel.write(&mut bytes);
        }
        let found = unpacked(&bytes, 3).unwrap();
        assert_eq!(found.iter().map(|parcel| parcel.from).collect::<Vec<_>>(), [1, 0, 2]);
        assert_eq!(found[0].bytes, Some(vec![1, 2, 3]));
        assert_eq!((found[1].bytes.clone(), found[2].bytes.clone()), (None, Some(vec![])));
        assert!(unpacked(&bytes, 2).is_none());
        assert!(unpacked(&bytes[..bytes.len() - 1], 3).is_none());
    }
}
