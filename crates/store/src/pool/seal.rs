//! Sealing: makes a page of written extents and of references to memory of other pages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use craton_slab::Extent;

use crate::api::{DataInfo, Durability, PageBuffer, PageSpec, Reference};
use crate::error::{Error, Result};
use crate::ids::{PageId, SetId};
use crate::images;
use crate::pool::Shared;
use crate::pool::jobs::Write;
use crate::pool::memory::rounded;
use crate::pool::tables::{Activity, Page, Resident, Tables};

/// The buffers of a new page, and how many of their bytes are its own and how many are shared.
struct Resolved {
    buffers: Arc<[PageBuffer]>,
    charge: u64,
    copied: u64,
    shared: u64,
    adopted: u64,
}

impl Shared {
    pub(crate) fn seal(&self, set: SetId, spec: PageSpec, extents: Vec<Extent>) -> Result<DataInfo> {
        let span = tracing::debug_span!("seal", set = %set);
        let _entered = span.enter();
        let durability = {
            let mut tables = self.tables.lock();
            if let Some(info) = existing(&mut tables, set, spec.key.as_deref())? {
                return Ok(info);
            }
            tables.set(set)?.options.durability
        };
        if durability != Durability::Discard {
            images::check(&spec.header, spec.buffers.iter().map(|buffer| buffer.length))?;
        }
        let resolved = self.resolve(&spec.buffers, extents)?;
        let number = {
            let mut tables = self.tables.lock();
            let set = tables.set(set)?;
            let number = set.next;
            set.next =
                number.checked_add(1).ok_or_else(|| Error::Invalid("the set has used up all page numbers".into()))?;
            number
        };
        let id = PageId { set, number };
        let header: Arc<[u8]> = spec.header.into();
        let mut written = None;
        if durability == Durability::WriteThrough {
            let started = Instant::now();
            let (header, buffers) = (Arc::clone(&header), Arc::clone(&resolved.buffers));
            let image = self.write_image(&Write { page: id, header, buffers, pending: self.memory.pending() })?;
            written = Some((Arc::new(image), started.elapsed().as_nanos() as u64));
        }
        let page = Page {
            key: spec.key.map(Arc::from),
            header,
            statistics: spec.statistics.into(),
            rows: spec.rows,
            bytes: spec.buffers.iter().map(|buffer| buffer.length).sum(),
            rebuild: spec.rebuild,
            memory: Some(Resident { buffers: resolved.buffers, charge: resolved.charge }),
            image: written.as_ref().map(|(image, _)| Arc::clone(image)),
            pins: 0,
            tick: 0,
            activity: Activity::None,
            ahead: false,
            queued: false,
        };
        let mut tables = self.tables.lock();
        if let Some((image, took)) = &written {
            tables.counters.written += image.total;
            tables.costs.wrote(image.total, *took);
        }
        // Another thread may have sealed a page with this key meanwhile, or dropped the set.
        let found = existing(&mut tables, set, page.key.as_deref());
        if !matches!(found, Ok(None)) {
            drop(tables);
            if written.is_some() {
                self.remove_orphan(id);
            }
            return found.and_then(|info| info.ok_or(Error::NoSet(set)));
        }
        let added = tables.add(id, page)?;
        tables.counters.copied += resolved.copied;
        tables.counters.shared += resolved.shared;
        tables.counters.adopted += resolved.adopted;
        drop(tables);
        self.memory.nudge();
        Ok(added)
    }

    /// Resolve references to memory: in `extents`, which the page owns from now on, or in extents of other pages.
    fn resolve(&self, references: &[Reference], extents: Vec<Extent>) -> Result<Resolved> {
        let mut own: BTreeMap<(u64, usize), (Arc<Extent>, bool)> = BTreeMap::new();
        for extent in extents {
            own.insert((extent.segment().id(), extent.offset()), (self.slabs.share(extent), false));
        }
        let (mut copied, mut shared, mut adopted) = (0, 0, 0);
        let mut buffers: Vec<Option<PageBuffer>> = vec![None; references.len()];
        for (index, reference) in references.iter().enumerate() {
            let refuse = || {
                let Reference { segment, offset, length } = reference;
                Error::Invalid(format!(
                    "buffer {index}, {length} bytes at {offset} of segment {segment:#x}, is neither in an extent that \
                     was granted for this page nor in a page"
                ))
            };
            if reference.length == 0 {
                continue;
            }
            let offset = usize::try_from(reference.offset).map_err(|_| refuse())?;
            let length = usize::try_from(reference.length).map_err(|_| refuse())?;
            let inside = |extent: &Extent| {
                let from = offset.checked_sub(extent.offset())?;
                let to = from.checked_add(length)?;
                (extent.segment().id() == reference.segment && to <= extent.len()).then_some(from..to)
            };
            let granted = own
                .range_mut(..=(reference.segment, offset))
                .next_back()
                .and_then(|(_, (extent, used))| inside(extent).map(|range| (extent, used, range)));
            if let Some((extent, used, range)) = granted {
                *used = true;
                let bytes = if extent.segment().is_adopted() { &mut adopted } else { &mut copied };
                *bytes += reference.length;
                buffers[index] = Some(PageBuffer { extent: Arc::clone(extent), range });
                continue;
            }
            let extent = self.slabs.find(reference.segment, offset).ok_or_else(refuse)?;
            let range = inside(&extent).ok_or_else(refuse)?;
            shared += reference.length;
            buffers[index] = Some(PageBuffer { extent, range });
        }
        let charge = own.values().filter(|(_, used)| *used).map(|(extent, _)| rounded(extent.len())).sum();
        // An empty buffer needs an extent too.
        let empty = match buffers.iter().flatten().next() {
            Some(buffer) => Arc::clone(&buffer.extent),
            None => self.nothing()?,
        };
        let empty = PageBuffer { extent: empty, range: 0..0 };
        let buffers = buffers.into_iter().map(|buffer| buffer.unwrap_or_else(|| empty.clone())).collect();
        Ok(Resolved { buffers, charge, copied, shared, adopted })
    }

    /// The extent that pages without bytes share.
    fn nothing(&self) -> Result<Arc<Extent>> {
        let mut nothing = self.nothing.lock();
        if let Some(extent) = &*nothing {
            return Ok(Arc::clone(extent));
        }
        let allocated = self.slabs.own().allocate(0);
        let extent = Arc::new(allocated.map_err(|error| Error::slab("allocate 0 bytes".into(), &error))?);
        *nothing = Some(Arc::clone(&extent));
        Ok(extent)
    }
}

/// The page of the set with that key, if there is one.
fn existing(tables: &mut Tables, id: SetId, key: Option<&[u8]>) -> Result<Option<DataInfo>> {
    let set = tables.set(id)?;
    let number = key.and_then(|key| set.keys.get(key)).copied();
    Ok(number.and_then(|number| Some(set.pages.get(&number)?.info(PageId { set: id, number }))))
}
