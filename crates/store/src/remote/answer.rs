//! The server's side of a client's connection.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use craton_slab::{Extent, Segment, SegmentId};

use super::Result;
use super::descriptors::{Channel, readable, refused, writable};
use super::protocol::{
    Announced, Answer, Broken, Bytes, Call, MOST, MOST_DESCRIPTORS, PinnedPage, Release, Reply, Request,
};
use super::session::Session;
use crate::api::{DataInfo, Reference, SetInfo};
use crate::error::Error;
use crate::ids::{PageId, SetId};

// Approximate bytes of a part of a long answer.
const PART: usize = 1 << 20;
// At least one in this many answers to a client lists the dropped segments.
const SWEEP: u32 = 32;

/// A connection after the handshake.
pub(super) struct Connection {
    session: Arc<Session>,
    channel: Channel,
    // The segments that were sent to this client for reading. Those that it can write to are in `session.granted`.
    announced: HashMap<SegmentId, Weak<Segment>>,
    answers: u32,
    patience: Duration,
}

// Data that accompanies a reply.
#[derive(Clone, Copy, Default)]
struct Beside<'a> {
    // The segments that the reply refers to.
    segments: &'a [Arc<Segment>],
    // Releases to perform if the client does not receive the complete answer.
    undo: &'a [Release],
}

impl Connection {
    pub(super) fn new(session: Arc<Session>, channel: Channel, patience: Duration) -> Self {
        Self { session, channel, announced: HashMap::new(), answers: 0, patience }
    }

    /// Answer calls until the connection ends; returns why it ended.
    pub(super) fn run(&mut self) -> Broken {
        loop {
            let outcome = match self.channel.receive::<Call>(MOST) {
                Ok(call) => self.answer(call),
                // An idle client may stay connected.
                Err(Broken::Silent) => continue,
                Err(e) => Err(e),
            };
            if let Err(e) = outcome {
                return e;
            }
        }
    }

    fn answer(&mut self, call: Call) -> Result<(), Broken> {
        self.session.release(&call.releases);
        self.session.wait_released(call.before, self.patience);
        let sweep = matches!(call.request, Request::Nothing);
        let outcome = match call.request {
            Request::Pages(set) => match self.session.home().pages(set) {
                Ok(pages) => return self.in_parts(pages, Beside::default(), page_bytes, Reply::Pages),
                Err(e) => Err(e),
            },
            Request::Describe => match self.session.home().describe() {
                Ok(sets) => return self.in_parts(sets, Beside::default(), set_bytes, Reply::Sets),
                Err(e) => Err(e),
            },
            Request::Pin(pages) => match self.pin(&pages) {
                Ok((pinned, segments)) => {
                    let undo: Vec<Release> = pinned.iter().map(|page| Release::Pin(page.pin)).collect();
                    let beside = Beside { segments: &segments, undo: &undo };
                    return self.in_parts(pinned, beside, pinned_bytes, Reply::Pinned);
                }
                Err(e) => Err(e),
            },
            Request::Allocate { set, lengths } => self.allocate(set, &lengths)?,
            Request::Granted(_) => {
                return Err(Broken::Malformed("a segment was acknowledged that was not granted".into()));
            }
            request => self.perform(request),
        };
        self.reply(outcome.unwrap_or_else(Reply::Failed), Beside::default(), sweep).map(drop)
    }

    fn perform(&self, request: Request) -> Result<Reply> {
        let (session, home) = (&self.session, self.session.home());
        Ok(match request {
            Request::CreateSet(options) => {
                let set = home.create_set(options)?;
                session.hold_set(set)?;
                Reply::Set(set)
            }
            Request::FindSet(name) => Reply::Found(home.find_set(&name)?),
            Request::RetainSet(set) => {
                home.retain_set(set)?;
                session.hold_set(set)?;
                Reply::Done
            }
            Request::NameSet(set, name) => {
                home.name_set(set, &name)?;
                Reply::Done
            }
            Request::SetAttributes(set, attributes) => {
                home.set_attributes(set, attributes)?;
                Reply::Done
            }
            Request::DropSet(set) => {
                home.drop_set(set)?;
                Reply::Done
            }
            Request::Seal(sealing) => Reply::Page(session.seal(*sealing)?),
            Request::Prefetch(pages) => {
                home.prefetch(&pages);
                Reply::Done
            }
            Request::FindPages(set, keys) => {
                let keys: Vec<Vec<u8>> = keys.into_iter().map(|Bytes(key)| key).collect();
                Reply::FoundPages(home.find_pages(set, &keys)?)
            }
            Request::DropPage(page) => {
                home.drop_page(page)?;
                Reply::Done
            }
            Request::Reserve { least, bytes } => {
                let reservation = home.reserve(least, bytes)?;
                let bytes = reservation.bytes;
                Reply::Reserved(session.hold_reservation(reservation)?, bytes)
            }
            Request::Counters => Reply::Counters(home.counters()?),
            // The caller has handled the remaining requests.
            Request::Nothing
            | Request::Pages(_)
            | Request::Describe
            | Request::Pin(_)
            | Request::Allocate { .. }
            | Request::Granted(_) => Reply::Done,
        })
    }

    // Pin pages for the client, all or none; returns their descriptions for the reply, and their segments.
    fn pin(&self, pages: &[PageId]) -> Result<(Vec<PinnedPage>, Vec<Arc<Segment>>)> {
        let pinned = self.session.home().pin_many(pages)?;
        let mut segments: Vec<Arc<Segment>> = Vec::new();
        let mut told = Vec::with_capacity(pinned.len());
        for page in &pinned {
            let mut buffers = Vec::with_capacity(page.buffers.len());
            for buffer in page.buffers.iter() {
                let segment = buffer.extent.segment();
                // Adjacent pages are mostly in the same segment.
                if !segments.iter().rev().take(4).any(|known| known.id() == segment.id()) {
                    segments.push(Arc::clone(segment));
                }
                let offset = (buffer.extent.offset() + buffer.range.start) as u64;
                buffers.push(Reference { segment: segment.id(), offset, length: buffer.range.len() as u64 });
            }
            let (info, header) = (page.info.clone(), Bytes(page.header.to_vec()));
            told.push(PinnedPage { pin: 0, info, header, buffers });
        }
        let pins = self.session.hold_pins(pinned)?;
        told.iter_mut().zip(pins).for_each(|(page, pin)| page.pin = pin);
        Ok((told, segments))
    }

    fn allocate(&mut self, set: SetId, lengths: &[u64]) -> Result<Result<Reply>, Broken> {
        let extents = match self.session.allocate(set, lengths) {
            Ok(extents) => extents,
            Err(e) => return Ok(Err(e)),
        };
        match self.grant(&extents) {
            Ok(Ok(())) => Ok(self.session.hold_extents(extents).map(Reply::Extents)),
            refused => {
                self.session.waive(extents);
                refused.map(|outcome| outcome.map(|()| Reply::Done))
            }
        }
    }

    // Let the client map new segments for writing, and then seal them.
    fn grant(&mut self, extents: &[Extent]) -> Result<Result<()>, Broken> {
        let session = Arc::clone(&self.session);
        let mut granted = session.granted.lock();
        for extent in extents {
            let segment = extent.segment();
            if granted.contains_key(&segment.id()) {
                continue;
            }
            let segments = vec![Announced { segment: segment.id(), length: segment.len() as u64 }];
            let answer = Answer { segments, gone: Vec::new(), reply: Reply::Grant };
            match writable(segment) {
                Ok(descriptor) => self.channel.send(&answer, &[descriptor], MOST)?,
                Err(e) => return Ok(Err(e)),
            }
            let call: Call = match self.channel.receive(MOST) {
                // The client must map a segment within the timeout of a message.
                Err(Broken::Silent) => return Err(Broken::Stalled),
                call => call?,
            };
            session.release(&call.releases);
            match call.request {
                Request::Granted(Ok(())) => {}
                Request::Granted(Err(why)) => {
                    let what = format!("map segment {:#x} of {} bytes", segment.id(), segment.len());
                    return Ok(Err(Error::Io { what, why, code: 0 }));
                }
                _ => return Err(Broken::Malformed("a granted segment was not acknowledged".into())),
            }
            if let Err(e) = segment.seal() {
                return Ok(Err(refused("seal a client's segment", &e)));
            }
            granted.insert(segment.id(), Arc::downgrade(segment));
        }
        Ok(Ok(()))
    }

    // Answer with a list in parts; the segments that it refers to are sent with the first part. If a part cannot be sent, an error replaces it
    // and ends the answer.
    fn in_parts<T>(
        &mut self,
        values: Vec<T>,
        mut beside: Beside<'_>,
        weigh: impl Fn(&T) -> usize,
        reply: impl Fn(Vec<T>, bool) -> Reply,
    ) -> Result<(), Broken> {
        let mut values = values.into_iter().peekable();
        loop {
            let (mut part, mut bytes) = (Vec::new(), 0);
            while bytes < PART {
                let Some(value) = values.next() else { break };
                bytes += weigh(&value);
                part.push(value);
            }
            let more = values.peek().is_some();
            let told = self.reply(reply(part, more), beside, false)?;
            if !more || !told {
                return Ok(());
            }
            beside.segments = &[];
        }
    }

    // Send a reply, or an error if the reply cannot be sent; returns whether the reply was sent.
    fn reply(&mut self, reply: Reply, beside: Beside<'_>, sweep: bool) -> Result<bool, Broken> {
        let mut unknown: Vec<&Arc<Segment>> = Vec::new();
        for segment in beside.segments {
            let id = segment.id();
            if !self.announced.contains_key(&id) && !self.session.granted.lock().contains_key(&id) {
                if let Err(e) = readable(segment) {
                    unknown.iter().for_each(|segment| drop(self.announced.remove(&segment.id())));
                    self.session.give_back(beside.undo);
                    self.send(Reply::Failed(e), &[], Vec::new())?;
                    return Ok(false);
                }
                self.announced.insert(id, Arc::downgrade(segment));
                unknown.push(segment);
            }
        }
        while unknown.len() > MOST_DESCRIPTORS {
            let rest = unknown.split_off(MOST_DESCRIPTORS);
            self.send(Reply::More, &unknown, Vec::new())?;
            unknown = rest;
        }
        let gone = self.gone(sweep);
        match self.send(reply, &unknown, gone) {
            Err(Broken::Oversize { length, most }) => {
                for segment in unknown {
                    self.announced.remove(&segment.id());
                }
                self.session.give_back(beside.undo);
                let why = format!("the answer has {length} bytes, which exceeds the limit of {most}");
                self.send(Reply::Failed(Error::Invalid(why)), &[], Vec::new())?;
                Ok(false)
            }
            outcome => outcome.map(|()| true),
        }
    }

    fn send(&mut self, reply: Reply, segments: &[&Arc<Segment>], gone: Vec<SegmentId>) -> Result<(), Broken> {
        // This fails for none, because the segments were shared before.
        let descriptors: Vec<BorrowedFd<'_>> = segments.iter().filter_map(|segment| readable(segment).ok()).collect();
        let segments = segments.iter().map(|s| Announced { segment: s.id(), length: s.len() as u64 }).collect();
        self.channel.send(&Answer { segments, gone, reply }, &descriptors, MOST)
    }

    // Now and then, the dropped segments that this client may unmap.
    fn gone(&mut self, sweep: bool) -> Vec<SegmentId> {
        self.answers = self.answers.wrapping_add(1);
        let mut gone = Vec::new();
        if sweep || self.answers % SWEEP == 0 {
            let mut live = |id: &SegmentId, segment: &mut Weak<Segment>| {
                let live = segment.strong_count() > 0;
                if !live {
                    gone.push(*id);
                }
                live
            };
            self.announced.retain(&mut live);
            self.session.granted.lock().retain(&mut live);
        }
        gone
    }
}

fn pinned_bytes(page: &PinnedPage) -> usize {
    page_bytes(&page.info) + page.header.0.len() + page.buffers.len() * 20
}

fn page_bytes(page: &DataInfo) -> usize {
    64 + page.key.as_ref().map_or(0, Vec::len) + page.statistics.len()
}

fn set_bytes(set: &SetInfo) -> usize {
    256 + set.options.name.as_ref().map_or(0, String::len) + set.options.tag.len()
}
