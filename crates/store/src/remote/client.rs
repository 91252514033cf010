//! The client of a store in another process.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use craton_slab::Extent;

use super::Result;
use super::address::Address;
use super::link::{Link, Using};
use super::protocol::{Bytes, MOST_EXTENTS, MOST_PINS, MOST_VALUES, PinnedPage, Release, Reply, Request, Sealing};
use super::serving::ClientId;
use crate::api::{
    Attributes, Counters, DataInfo, Home, PageBuffer, PageSpec, Pinned, Reservation, SetInfo, SetOptions,
};
use crate::error::Error;
use crate::ids::{PageId, SetId};

// The most bytes of keys in one call.
const MOST_KEYS: usize = 8 << 20;

/// A [`Home`] that sends requests to the server of another process.
///
/// It is thread-safe; up to eight calls run concurrently, and further calls wait. Extents, pins and reservations keep its connections open,
/// even after the client itself was dropped. A forked child that uses the client connects again and becomes a separate client: inherited
/// extents, pins and reservations remain its parent's, and an inherited page stays valid only as long as the parent pins it.
pub struct Client {
    address: Address,
    // An `Arc` of the link of this process, or of the parent that it was forked from. Not behind a lock, because a lock that another thread
    // held at the fork would stay locked for ever in the child.
    link: AtomicPtr<Link>,
}

impl Client {
    /// Connect to the server at `address`.
    ///
    /// # Errors
    /// [`Connection`](Error::Connection) when no server listens there, when it belongs to another user, or when its protocol version differs.
    pub fn connect(address: &Address) -> Result<Self> {
        let link = Link::connect(address)?;
        Ok(Self { address: address.clone(), link: AtomicPtr::new(Arc::into_raw(link).cast_mut()) })
    }

    /// The address of the server.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The id that the server gave this client.
    ///
    /// # Errors
    /// [`Connection`](Error::Connection) in a forked child that cannot connect.
    pub fn id(&self) -> Result<ClientId> {
        Ok(self.link()?.client)
    }

    /// Close the client: every later call fails. The connections are closed as soon as the last pinned page, extent and reservation of this
    /// process is released; until then these stay valid. A second call does nothing.
    pub fn close(&self) {
        self.current().1.close();
    }

    // The pointer to the link, which may be the parent's in a forked child, and an `Arc` of it.
    fn current(&self) -> (*mut Link, Arc<Link>) {
        let found = self.link.load(Ordering::Acquire);
        // SAFETY: the pointer is of an `Arc` that this value owns; it releases none before it is dropped.
        let link = unsafe {
            Arc::increment_strong_count(found);
            Arc::from_raw(found)
        };
        (found, link)
    }

    fn link(&self) -> Result<Using> {
        loop {
            let (found, link) = self.current();
            if link.is_here() {
                return Using::new(link);
            }
            link.open()?;
            let fresh = Arc::into_raw(Link::connect(&self.address)?).cast_mut();
            // The parent's link is leaked, not dropped, because dropping it would close the parent's connections.
            if self.link.compare_exchange(found, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: created above by `into_raw`, and not shared.
                drop(unsafe { Arc::from_raw(fresh) });
            }
        }
    }

    fn call(&self, request: Request) -> Result<Reply> {
        self.link()?.call(request)
    }

    fn done(&self, request: Request) -> Result<()> {
        let link = self.link()?;
        match link.call(request)? {
            Reply::Done => Ok(()),
            other => Err(strange(&link, &other)),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let link = std::mem::replace(self.link.get_mut(), ptr::null_mut());
        // SAFETY: this value owns the `Arc`, and is not used any more.
        let link = unsafe { Arc::from_raw(link) };
        if !link.is_here() {
            std::mem::forget(link);
        }
    }
}

// Pin up to as many pages as one call may pin.
fn pin_some(link: &Using, pages: &[PageId]) -> Result<Vec<Pinned>> {
    match link.call(Request::Pin(pages.to_vec()))? {
        Reply::Pinned(pinned, _) if pinned.len() == pages.len() => {
            pinned.into_iter().map(|page| mapped(link, page)).collect()
        }
        other => Err(strange(link, &other)),
    }
}

// Map a page that the server has pinned into this process.
fn mapped(link: &Using, page: PinnedPage) -> Result<Pinned> {
    let PinnedPage { pin, info, header, buffers: references } = page;
    let mut buffers = Vec::with_capacity(references.len());
    for reference in references {
        let extent = link.mapped().extent(reference, None).map_err(|why| link.lost(&why))?;
        let range = 0..extent.len();
        buffers.push(PageBuffer { extent: Arc::new(extent), range });
    }
    let owner = link.clone();
    let unpin = Box::new(move || owner.give_back(Release::Pin(pin)));
    Ok(Pinned { info, header: header.0.into(), buffers: buffers.into(), unpin: Some(unpin) })
}

fn strange(link: &Link, reply: &Reply) -> Error {
    let text = format!("{reply:?}");
    let name = text.split([' ', '(', '{']).next().unwrap_or_default();
    link.lost(&format!("its reply, {name}, does not match the request"))
}

impl Home for Client {
    fn create_set(&self, options: SetOptions) -> Result<SetId> {
        let link = self.link()?;
        match link.call(Request::CreateSet(options))? {
            Reply::Set(set) => Ok(set),
            other => Err(strange(&link, &other)),
        }
    }

    fn find_set(&self, name: &str) -> Result<Option<SetId>> {
        let link = self.link()?;
        match link.call(Request::FindSet(name.into()))? {
            Reply::Found(set) => Ok(set),
            other => Err(strange(&link, &other)),
        }
    }

    fn retain_set(&self, set: SetId) -> Result<()> {
        self.done(Request::RetainSet(set))
    }

    fn name_set(&self, set: SetId, name: &str) -> Result<()> {
        self.done(Request::NameSet(set, name.into()))
    }

    fn release_set(&self, set: SetId) {
        if let Ok(link) = self.link() {
            link.give_back(Release::Set(set));
        }
    }

    fn set_attributes(&self, set: SetId, attributes: Attributes) -> Result<()> {
        self.done(Request::SetAttributes(set, attributes))
    }

    fn drop_set(&self, set: SetId) -> Result<()> {
        self.done(Request::DropSet(set))
    }

    fn allocate(&self, set: SetId, lengths: &[usize]) -> Result<Vec<Extent>> {
        let link = self.link()?;
        let mut extents = Vec::with_capacity(lengths.len());
        // Make at least one call, so that a missing set is an error even without lengths.
        let mut rest = lengths;
        loop {
            let (some, more) = rest.split_at(rest.len().min(MOST_EXTENTS));
            let asked = some.iter().map(|length| *length as u64).collect();
            let granted = match link.call(Request::Allocate { set, lengths: asked })? {
                Reply::Extents(granted) if granted.len() == some.len() => granted,
                other => return Err(strange(&link, &other)),
            };
            for (token, reference) in granted {
                let place = (reference.segment, reference.offset as usize);
                let owner = link.clone();
                let release = move || {
                    if let Some(token) = owner.take_extent(place) {
                        owner.give_back(Release::Extent(token));
                    }
                };
                link.hold_extent(place, token);
                let extent = link.mapped().extent(reference, Some(Box::new(release)));
                extents.push(extent.map_err(|why| link.lost(&why))?);
            }
            rest = more;
            if rest.is_empty() {
                return Ok(extents);
            }
        }
    }

    fn seal(&self, set: SetId, spec: PageSpec, extents: Vec<Extent>) -> Result<DataInfo> {
        let link = self.link()?;
        let mut tokens = Vec::with_capacity(extents.len());
        for extent in &extents {
            match link.take_extent((extent.segment().id(), extent.offset())) {
                Some(token) => tokens.push(token),
                None => {
                    // Dropping the extents does not release them any more, so release them here.
                    tokens.into_iter().for_each(|token| link.give_back(Release::Extent(token)));
                    return Err(Error::Invalid(format!("{extent:?} is not an unsealed extent of this client")));
                }
            }
        }
        let request = Request::Seal(Box::new(Sealing::new(set, spec, tokens)));
        match link.call(request)? {
            Reply::Page(info) => Ok(info),
            other => Err(strange(&link, &other)),
        }
    }

    fn pin(&self, page: PageId) -> Result<Pinned> {
        let link = self.link()?;
        let mut pinned = pin_some(&link, &[page])?;
        pinned.pop().ok_or_else(|| link.lost("its reply has no pinned page"))
    }

    fn pin_many(&self, pages: &[PageId]) -> Result<Vec<Pinned>> {
        let link = self.link()?;
        let mut pinned = Vec::with_capacity(pages.len());
        for some in pages.chunks(MOST_PINS) {
            pinned.append(&mut pin_some(&link, some)?);
        }
        Ok(pinned)
    }

    fn prefetch(&self, pages: &[PageId]) {
        for some in pages.chunks(MOST_VALUES) {
            // Prefetching is only a hint, so errors are ignored.
            if self.call(Request::Prefetch(some.to_vec())).is_err() {
                return;
            }
        }
    }

    fn pages(&self, set: SetId) -> Result<Vec<DataInfo>> {
        let link = self.link()?;
        match link.call(Request::Pages(set))? {
            Reply::Pages(pages, _) => Ok(pages),
            other => Err(strange(&link, &other)),
        }
    }

    fn find_pages(&self, set: SetId, keys: &[Vec<u8>]) -> Result<Vec<Option<DataInfo>>> {
        let link = self.link()?;
        let mut found = Vec::with_capacity(keys.len());
        let mut rest = keys;
        loop {
            let mut bytes = 0usize;
            let fits = rest.iter().take(MOST_VALUES / 4).take_while(|key| {
                bytes = bytes.saturating_add(key.len());
                bytes <= MOST_KEYS
            });
            let (some, more) = rest.split_at(fits.count().max(1).min(rest.len()));
            let asked = some.iter().map(|key| Bytes(key.clone())).collect();
            match link.call(Request::FindPages(set, asked))? {
                Reply::FoundPages(pages) if pages.len() == some.len() => found.extend(pages),
                other => return Err(strange(&link, &other)),
            }
            rest = more;
            if rest.is_empty() {
                return Ok(found);
            }
        }
    }

    fn drop_page(&self, page: PageId) -> Result<()> {
        self.done(Request::DropPage(page))
    }

    fn reserve(&self, least: u64, bytes: u64) -> Result<Reservation> {
        let link = self.link()?;
        match link.call(Request::Reserve { least, bytes })? {
            Reply::Reserved(token, bytes) => {
                let release = Box::new(move || link.give_back(Release::Reservation(token)));
                Ok(Reservation { bytes, release: Some(release) })
            }
            other => Err(strange(&link, &other)),
        }
    }

    fn describe(&self) -> Result<Vec<SetInfo>> {
        let link = self.link()?;
        match link.call(Request::Describe)? {
            Reply::Sets(sets, _) => Ok(sets),
            other => Err(strange(&link, &other)),
        }
    }

    fn counters(&self) -> Result<Counters> {
        let link = self.link()?;
        match link.call(Request::Counters)? {
            Reply::Counters(counters) => Ok(counters),
            other => Err(strange(&link, &other)),
        }
    }
}
