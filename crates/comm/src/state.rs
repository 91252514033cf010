//! What all threads of a rank know of the whole: whether it has failed, who has left, and the latest calls.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::bell::Bell;

/// Why a communicator is unusable. Ranks are those of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A rank has ended or cannot be reached.
    Failed { rank: usize, reason: String },
    /// A rank's call did not end in time.
    Timeout(String),
    /// The ranks' calls do not agree.
    Mismatch(String),
    /// It was aborted, or a call was interrupted.
    Aborted(String),
    /// This rank has closed it.
    Closed,
}

impl Fault {
    /// What later calls say.
    pub fn text(&self) -> String {
        match self {
            Self::Failed { rank, reason } => format!("rank {rank} has failed: {reason}"),
            Self::Timeout(text) | Self::Mismatch(text) | Self::Aborted(text) => text.clone(),
            Self::Closed => "it was closed".into(),
        }
    }

    /// As a notice to other ranks.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, rank, text) = match self {
            Self::Failed { rank, reason } => (0_u8, *rank as u32, reason.as_str()),
            Self::Timeout(text) => (1, 0, text.as_str()),
            Self::Mismatch(text) => (2, 0, text.as_str()),
            Self::Aborted(text) => (3, 0, text.as_str()),
            Self::Closed => (4, 0, ""),
        };
        let mut end = text.len().min(2000);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = vec![kind];
        bytes.extend(rank.to_le_bytes());
        bytes.extend(&text.as_bytes()[..end]);
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let rank = u32::from_le_bytes(bytes.get(1..5)?.try_into().ok()?) as usize;
        let text = String::from_utf8_lossy(&bytes[5..]).into_owned();
        Some(match bytes[0] {
            0 => Self::Failed { rank, reason: text },
            1 => Self::Timeout(text),
            2 => Self::Mismatch(text),
            3 => Self::Aborted(text),
            4 => Self::Closed,
            _ => return None,
        })
    }
}

/// A collective that this rank has called: its group, its number in the group, and its signature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Called {
    pub context: u64,
    pub number: u64,
    pub signature: u32,
}

const REMEMBERED: usize = 64;

/// The state of a rank.
pub(crate) struct State {
    pub bell: Bell,
    broken: AtomicBool,
    fault: Mutex<Option<(Fault, bool)>>,
    left: Vec<AtomicBool>,
    calls: Mutex<([Called; REMEMBERED], usize)>,
}

impl State {
    pub fn new(bell: Bell, size: usize) -> Self {
        Self {
            bell,
            broken: AtomicBool::new(false),
            fault: Mutex::new(None),
            left: (0..size).map(|_| AtomicBool::new(false)).collect(),
            calls: Mutex::new(([Called::default(); REMEMBERED], 0)),
        }
    }

    /// Record the first fault; return whether it was the first.
    pub fn fail(&self, fault: Fault) -> bool {
        let mut known = self.fault.lock();
        if known.is_some() {
            return false;
        }
        *known = Some((fault, false));
        // Before any memory that was offered to others is freed.
        self.bell.broken().store(1, Ordering::SeqCst);
        self.broken.store(true, Ordering::SeqCst);
        drop(known);
        self.bell.ring();
        true
    }

    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    pub fn fault(&self) -> Option<Fault> {
        self.fault.lock().as_ref().map(|(fault, _)| fault.clone())
    }

    /// The fault, and whether a call has raised it already; from now on it counts as raised.
    pub fn raise(&self) -> Option<(Fault, bool)> {
        let mut known = self.fault.lock();
        let found = known.clone();
        if let Some((_, raised)) = known.as_mut() {
            *raised = true;
        }
        found
    }

    /// Record that a rank has closed its communicator in order.
    pub fn leave(&self, rank: usize) {
        self.left[rank].store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    pub fn has_left(&self, rank: usize) -> bool {
        self.left[rank].load(Ordering::SeqCst)
    }

    pub fn remember(&self, call: Called) {
        let mut calls = self.calls.lock();
        let at = calls.1;
        calls.0[at % REMEMBERED] = call;
        calls.1 = at + 1;
    }

    /// The signature of this rank's call with another rank's number, if it is remembered.
    pub fn signature_of(&self, call: &Called) -> Option<u32> {
        let calls = self.calls.lock();
        let known = calls.0[..calls.1.min(REMEMBERED)].iter();
        known.filter(|one| (one.context, one.number) == (call.context, call.number)).map(|one| one.signature).next()
    }
}

#[cfg(test)]
mod tests {
    use super::Fault;

    #[test]
    fn faults_survive_their_encoding() {
        let long = "ü".repeat(3000);
        for fault in [
            Fault::Failed { rank: 7, reason: "gone".into() },
            Fault::Timeout("late".into()),
            Fault::Mismatch(String::new()),
            Fault::Aborted("why".into()),
            Fault::Closed,
        ] {
            assert_eq!(Fault::decode(&fault.encode()), Some(fault));
        }
        assert_eq!(Fault::decode(&Fault::Aborted(long).encode()), Some(Fault::Aborted("ü".repeat(1000))));
        assert_eq!(Fault::decode(b"\x09\0\0\0\0"), None);
        assert_eq!(Fault::decode(b"\0"), None);
    }
}
