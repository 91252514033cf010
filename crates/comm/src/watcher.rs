//! The thread that watches the other ranks: it notices at once when one has ended, and passes on why a communicator became unusable.
//!
//! Every pair of ranks has a socket for notices, also on one machine. The end of a process closes it; where the system allows it, the end is
//! also awaited directly, since a forked child may hold the socket. Sockets between machines carry a heartbeat, because a machine that has
//! lost its power closes nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::engine::mismatch;
use crate::state::{Called, Fault, State};

/// How often a heartbeat is sent, and how long a silent machine is waited for.
const HEARTBEAT: Duration = Duration::from_millis(400);
const MOST_SILENCE: Duration = Duration::from_millis(1800);
/// The longest notice.
const MOST_NOTICE: usize = 4096;

const BEAT: u8 = 0;
const BYE: u8 = 1;
const FAULT: u8 = 2;
const INQUIRY: u8 = 3;

/// A socket for notices.
pub(crate) enum NoticeSocket {
    Local(UnixStream),
    Remote(TcpStream),
}

impl NoticeSocket {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Local(stream) => stream.as_fd(),
            Self::Remote(stream) => stream.as_fd(),
        }
    }

    fn read(&self, target: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Local(stream) => (&*stream).read(target),
            Self::Remote(stream) => (&*stream).read(target),
        }
    }

    fn write(&self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Local(stream) => (&*stream).write(bytes),
            Self::Remote(stream) => (&*stream).write(bytes),
        }
    }
}

impl NoticeSocket {
    /// Send no more, and end the other side's reading.
    pub fn shut(&self) {
        let _ = match self {
            Self::Local(stream) => stream.shutdown(std::net::Shutdown::Both),
            Self::Remote(stream) => stream.shutdown(std::net::Shutdown::Both),
        };
    }
}

/// The socket to one rank.
pub(crate) struct Line {
    pub rank: usize,
    pub socket: NoticeSocket,
    /// Its process, where the system can report its end.
    pub process: Option<OwnedFd>,
    /// Held while a notice is written.
    pub writing: Mutex<()>,
}

impl Line {
    fn send(&self, kind: u8, body: &[u8]) {
        let mut bytes = vec![kind];
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        let _one_at_a_time = self.writing.lock();
        let (mut sent, mut tries) = (0, 0);
        while sent < bytes.len() {
            match self.socket.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // A rank whose socket is full has not read notices for long. A part of a notice must be followed by the rest.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && tries < 20 => {
                    if kind == BEAT && sent == 0 {
                        return;
                    }
                    tries += 1;
                    let socket = PollFd::from_borrowed_fd(self.socket.fd(), PollFlags::OUT);
                    let _ = poll(&mut [socket], Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 }));
                }
                Err(_) => return,
            }
        }
    }
}

/// The sockets to all ranks.
pub(crate) struct Lines {
    pub lines: Vec<Line>,
    pub state: Arc<State>,
    pub wake: OwnedFd,
    pub waker: OwnedFd,
    pub stopping: AtomicBool,
}

impl Lines {
    /// Record a fault and, if it is the first, tell all ranks.
    pub fn fail(&self, fault: Fault) {
        if self.state.fail(fault.clone()) {
            self.pass_on(&fault);
        }
    }

    /// Tell all ranks of a fault that this one knows of.
    pub fn pass_on(&self, fault: &Fault) {
        self.all(FAULT, &fault.encode());
    }

    /// Tell all ranks that this one closes its communicator.
    pub fn say_bye(&self) {
        self.all(BYE, &[]);
    }

    /// Tell ranks which collective this one waits in; one that has called another one under the same number notices it.
    pub fn inquire(&self, ranks: &[usize], call: &Called) {
        let mut body = call.context.to_le_bytes().to_vec();
        body.extend(call.number.to_le_bytes());
        body.extend(call.signature.to_le_bytes());
        for line in self.lines.iter().filter(|line| ranks.contains(&line.rank)) {
            line.send(INQUIRY, &body);
        }
    }

    fn all(&self, kind: u8, body: &[u8]) {
        for line in &self.lines {
            line.send(kind, body);
        }
    }

    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }

    fn heard(&self, line: &Line, kind: u8, body: &[u8]) -> Option<()> {
        match kind {
            BEAT => {}
            BYE => self.state.leave(line.rank),
            FAULT => {
                self.state.fail(Fault::decode(body)?);
            }
            INQUIRY => {
                let number = |at: usize| Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?));
                let signature = u32::from_le_bytes(body.get(16..20)?.try_into().ok()?);
                let call = Called { context: number(0)?, number: number(8)?, signature };
                if let Some(ours) = self.state.signature_of(&call).filter(|&ours| ours != signature) {
                    self.fail(mismatch(ours, line.rank, signature));
                }
            }
            _ => return None,
        }
        Some(())
    }
}

/// What has been read from a line so far.
struct Reading {
    bytes: Vec<u8>,
    heard: Instant,
    open: bool,
}

/// Watch until `stop`.
pub(crate) fn watch(lines: &Lines) {
    let remote = lines.lines.iter().any(|line| matches!(line.socket, NoticeSocket::Remote(_)));
    let mut readings: Vec<Reading> =
        lines.lines.iter().map(|_| Reading { bytes: Vec::new(), heard: Instant::now(), open: true }).collect();
    let (mut beaten, mut looped) = (Instant::now(), Instant::now());
    while !lines.stopping.load(Ordering::SeqCst) {
        let ready = await_notices(lines, &readings, remote.then_some(HEARTBEAT / 2));
        let now = Instant::now();
        // This process itself may have been stopped; then nobody was silent.
        let absent = now - looped > MOST_SILENCE / 2;
        looped = now;
        for (number, line) in lines.lines.iter().enumerate() {
            let reading = &mut readings[number];
            if absent {
                reading.heard = now;
            }
            if reading.open && ready[number] {
                read(lines, line, reading, now);
            }
            let silent = matches!(line.socket, NoticeSocket::Remote(_)) && now - reading.heard > MOST_SILENCE;
            if reading.open && silent && !lines.state.has_left(line.rank) {
                reading.open = false;
                let reason = format!("it has been silent for {:.1} s", (now - reading.heard).as_secs_f64());
                lines.fail(Fault::Failed { rank: line.rank, reason });
            }
        }
        if remote && now - beaten >= HEARTBEAT {
            beaten = now;
            for (line, reading) in lines.lines.iter().zip(&readings) {
                if reading.open && matches!(line.socket, NoticeSocket::Remote(_)) {
                    line.send(BEAT, &[]);
                }
            }
        }
    }
}

/// Wait for notices; return for each line whether its socket is to be read.
fn await_notices(lines: &Lines, readings: &[Reading], most: Option<Duration>) -> Vec<bool> {
    let mut watched = vec![PollFd::from_borrowed_fd(lines.wake.as_fd(), PollFlags::IN)];
    let mut numbers = Vec::new();
    for (number, line) in lines.lines.iter().enumerate().filter(|(number, _)| readings[*number].open) {
        for fd in [Some(line.socket.fd()), line.process.as_ref().map(AsFd::as_fd)].into_iter().flatten() {
            watched.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            numbers.push(number);
        }
    }
    let timeout = most.map(|most| Timespec { tv_sec: 0, tv_nsec: i64::from(most.subsec_nanos()) });
    let _ = poll(&mut watched, timeout.as_ref());
    let mut ready = vec![false; readings.len()];
    for (fd, &number) in watched[1..].iter().zip(&numbers) {
        ready[number] |= !fd.revents().is_empty();
    }
    ready
}

fn read(lines: &Lines, line: &Line, reading: &mut Reading, now: Instant) {
    let mut target = [0; MOST_NOTICE];
    let (mut ended, mut gone) = (None, false);
    loop {
        match line.socket.read(&mut target) {
            Ok(0) => {
                ended = Some("its process has ended".to_owned());
                break;
            }
            Ok(count) => {
                reading.heard = now;
                reading.bytes.extend(&target[..count]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                // The process has ended, but a child that it has forked holds the socket. Its last notice may have come meanwhile.
                if gone {
                    ended = Some("its process has ended".to_owned());
                } else if line.process.as_ref().is_some_and(|process| is_ready(process.as_fd())) {
                    gone = true;
                    continue;
                }
                break;
            }
            Err(error) => {
                ended = Some(format!("its connection broke: {error}"));
                break;
            }
        }
    }
    while let Some(notice) = reading.bytes.get(..5) {
        let length = u32::from_le_bytes(notice[1..5].try_into().expect("four bytes")) as usize;
        if length > MOST_NOTICE {
            ended = Some("it sent a malformed notice".to_owned());
            break;
        }
        if reading.bytes.len() < 5 + length {
            break;
        }
        let rest = reading.bytes.split_off(5 + length);
        let notice = std::mem::replace(&mut reading.bytes, rest);
        if lines.heard(line, notice[0], &notice[5..]).is_none() {
            ended = Some("it sent a malformed notice".to_owned());
            break;
        }
    }
    if let Some(reason) = ended {
        reading.open = false;
        if !lines.state.has_left(line.rank) {
            lines.fail(Fault::Failed { rank: line.rank, reason });
        }
    }
}

fn is_ready(fd: BorrowedFd<'_>) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}
