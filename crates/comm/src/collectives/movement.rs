//! Collectives of one value: barrier, broadcast, gather, scatter.

use super::SMALL_GROUP;
use crate::engine::{Stop, Target};
use crate::error::{Error, Result};
use crate::group::{Call, Collective, Control, Group};
use crate::memory::{Block, Piece, slice, total};

/// The most bytes of a value that a broadcast sends along with its length.
const INLINE: usize = 32 << 10;

impl Group {
    /// Return when all ranks have called it: dissemination, in a logarithmic number of rounds.
    ///
    /// # Errors
    /// Those of all calls.
    pub fn barrier(&self, control: &mut Control<'_>) -> Result<()> {
        self.collective(Collective::Barrier, &[], control, |call| {
            let (rank, size) = (call.rank, call.size());
            let (mut distance, mut round) = (1, 0);
            while distance < size {
                call.send((rank + distance) % size, round, &[])?;
                let request =
                    call.receive((rank + size - distance) % size, round, Target::Memory(std::ptr::null_mut(), 0))?;
                call.wait(&[request])?;
                distance *= 2;
                round += 1;
            }
            Ok(())
        })
    }

    /// Send the root's pieces to all ranks; return the value on the others.
    ///
    /// Values of unknown length go down a binomial tree, directly in small groups. Large values in large groups, and between machines,
    /// are scattered over the ranks, which then exchange their parts: each rank sends little more than the value once.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a root that does not exist or has no pieces, and those of all calls.
    pub fn broadcast(&self, pieces: Option<&[Piece]>, root: usize, control: &mut Control<'_>) -> Result<Option<Block>> {
        self.check(root)?;
        if root == self.rank() && pieces.is_none() {
            return Err(Error::Invalid("the root of a broadcast must have a value".into()));
        }
        let pieces = pieces.filter(|_| root == self.rank());
        self.collective(Collective::Broadcast, &[root as u64], control, |call| {
            if call.size() == 1 {
                return Ok(None);
            }
            if call.size() <= SMALL_GROUP && call.is_local() {
                return broadcast_directly(call, pieces, root);
            }
            let mut first = Vec::new();
            if let Some(pieces) = pieces {
                let length = total(pieces);
                first.extend((length as u64).to_le_bytes());
                if length <= INLINE {
                    first.extend_from_slice(Block::copy_of(pieces)?.bytes());
                }
            }
            let received = broadcast_by_tree(call, &[Piece::of(&first)], root)?;
            let head = received.as_ref().map_or(&first[..], Block::bytes);
            let length = u64::from_le_bytes(head[..8].try_into().expect("eight bytes")) as usize;
            if length > INLINE {
                return broadcast_by_parts(call, pieces, root, length);
            }
            received.map(|block| Block::copy_of(&[Piece::of(&block.bytes()[8..])])).transpose().map_err(Stop::Failed)
        })
    }

    /// Return the values of the other ranks, by rank, on the root; None in the place of its own.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a root that does not exist, and those of all calls.
    pub fn gather(
        &self,
        pieces: &[Piece],
        root: usize,
        control: &mut Control<'_>,
    ) -> Result<Option<Vec<Option<Block>>>> {
        self.check(root)?;
        self.collective(Collective::Gather, &[root as u64], control, |call| {
            if call.rank != root {
                call.send(root, 0, pieces)?;
                return Ok(None);
            }
            let mut requests = Vec::new();
            for other in call.others() {
                requests.push((other, call.receive(other, 0, Target::Block)?));
            }
            call.wait_all()?;
            let mut values: Vec<Option<Block>> = (0..call.size()).map(|_| None).collect();
            for (other, request) in requests {
                values[other] = Some(call.engine.take_block(request));
            }
            Ok(Some(values))
        })
    }

    /// Return the root's value for this rank; `None` on the root.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a root that does not exist or does not have a value for each rank, and those of all calls.
    pub fn scatter(
        &self,
        values: Option<&[Vec<Piece>]>,
        root: usize,
        control: &mut Control<'_>,
    ) -> Result<Option<Block>> {
        self.check(root)?;
        let values = values.filter(|_| self.rank() == root);
        if self.rank() == root && values.is_none_or(|values| values.len() != self.size()) {
            return Err(Error::Invalid(format!("the root must have a value for each of the {} ranks", self.size())));
        }
        self.collective(Collective::Scatter, &[root as u64], control, |call| match values {
            None => call.receive_block(root, 0).map(Some),
            Some(values) => {
                for other in call.others() {
                    call.send(other, 0, &values[other])?;
                }
                Ok(None)
            }
        })
    }
}

fn broadcast_directly(
    call: &mut Call<'_, '_>,
    pieces: Option<&[Piece]>,
    root: usize,
) -> std::result::Result<Option<Block>, Stop> {
    let Some(pieces) = pieces else { return call.receive_block(root, 0).map(Some) };
    for other in call.others() {
        call.send(other, 0, pieces)?;
    }
    Ok(None)
}

/// Down a binomial tree; ranks are counted from the root.
fn broadcast_by_tree(
    call: &mut Call<'_, '_>,
    pieces: &[Piece],
    root: usize,
) -> std::result::Result<Option<Block>, Stop> {
    let size = call.size();
    let place = (call.rank + size - root) % size;
    let mut distance = 1;
    while distance < size && place & distance == 0 {
        distance *= 2;
    }
    let mut received = None;
    if place != 0 {
        received = Some(call.receive_block((place - distance + root) % size, 0)?);
    }
    let pieces = received.as_ref().map_or(pieces.to_vec(), |block| vec![Piece::of(block.bytes())]);
    while distance > 1 {
        distance /= 2;
        if place + distance < size {
            call.send((place + distance + root) % size, 0, &pieces)?;
        }
    }
    call.wait_all()?;
    Ok(received)
}

/// The root scatters the value, and the ranks exchange their parts.
fn broadcast_by_parts(
    call: &mut Call<'_, '_>,
    pieces: Option<&[Piece]>,
    root: usize,
    length: usize,
) -> std::result::Result<Option<Block>, Stop> {
    let (rank, size) = (call.rank, call.size());
    // The root has no part: it has sent everything already. The others are counted from the one after it.
    let part = |place: usize| {
        let at = |place: usize| length as u128 * place as u128 / (size as u128 - 1);
        at(place) as usize..at(place + 1) as usize
    };
    if let Some(pieces) = pieces {
        for other in call.others() {
            let range = part((other + size - root) % size - 1);
            call.send(other, 1, &slice(pieces, range.start, range.len()))?;
        }
        call.wait_all()?;
        return Ok(None);
    }
    let block = Block::new(length)?;
    let target = |place: usize| Target::Memory(block.pointer().wrapping_add(part(place).start), part(place).len());
    let place = (rank + size - root) % size - 1;
    let own = call.receive(root, 1, target(place))?;
    for other in call.others().filter(|&other| other != root) {
        call.receive(other, 2, target((other + size - root) % size - 1))?;
    }
    call.wait(&[own])?;
    let own = Piece { start: block.pointer().wrapping_add(part(place).start), length: part(place).len() };
    for other in call.others().filter(|&other| other != root) {
        call.send(other, 2, &[own])?;
    }
    call.wait_all()?;
    Ok(Some(block))
}
