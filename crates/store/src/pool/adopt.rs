//! Pages that another process wrote into memory of its own, and handed over to the store.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use craton_slab::Extent;

use super::Pool;
use super::memory::rounded;
use crate::api::{DataInfo, Home, PageSpec, Reference};
use crate::error::{Error, Result};
use crate::ids::SetId;

/// A memfd that a process hands over to the store, and its blocks that pages refer to: offsets, which are multiples of 64, and bytes.
pub struct HandedOver {
    /// The memfd. Nobody may write to it any more.
    pub fd: OwnedFd,
    /// Its length in bytes.
    pub length: usize,
    /// The blocks. All other memory of it is returned to the system.
    pub blocks: Vec<(usize, usize)>,
}

impl Pool {
    /// Seal pages whose buffers lie in memory that another process hands over to the store; no byte is copied. In the references of a page, the
    /// number of a memfd stands for a segment. Other references are to memory of live pages.
    ///
    /// # Errors
    /// [`Error::Full`] when there is no room for the blocks; [`Error::Invalid`] when the memfds or the pages are not what they should be;
    /// [`Error::NoSet`]. No page is sealed then.
    pub fn adopt(&self, set: SetId, memfds: Vec<HandedOver>, pages: Vec<PageSpec>) -> Result<Vec<DataInfo>> {
        self.shared.tables.lock().set(set)?;
        let blocks = memfds.iter().flat_map(|memfd| &memfd.blocks);
        let bytes = blocks.map(|&(_, length)| rounded(length)).fold(0_u64, u64::saturating_add);
        let mut charge = self.shared.room(bytes)?;
        let mut segments = Vec::with_capacity(memfds.len());
        // By the number of the memfd and the offset of the block.
        let mut extents: BTreeMap<(u64, usize), Extent> = BTreeMap::new();
        for (number, memfd) in memfds.into_iter().enumerate() {
            let adopted = self.shared.slabs.own().adopt(memfd.fd, memfd.length, &memfd.blocks);
            let adopted = adopted.map_err(|error| match error {
                craton_slab::Error::Foreign { .. } | craton_slab::Error::Outside { .. } => {
                    Error::Invalid(format!("memory of another process: {error}"))
                }
                other => Error::slab("take over memory of another process".into(), &other),
            })?;
            segments.push(adopted.first().map(|extent| extent.segment().id()));
            for extent in adopted {
                extents.insert((number as u64, extent.offset()), charge.held_by(extent));
            }
        }
        drop(charge);
        let mut sealed = Vec::with_capacity(pages.len());
        for spec in pages {
            match self.seal_adopted(set, spec, &segments, &mut extents) {
                Ok(info) => sealed.push(info),
                Err(error) => {
                    for info in sealed {
                        let _ = self.drop_page(info.page);
                    }
                    return Err(error);
                }
            }
        }
        Ok(sealed)
    }

    fn seal_adopted(
        &self,
        set: SetId,
        mut spec: PageSpec,
        segments: &[Option<u64>],
        extents: &mut BTreeMap<(u64, usize), Extent>,
    ) -> Result<DataInfo> {
        let mut own = Vec::new();
        for reference in &mut spec.buffers {
            let number = reference.segment;
            let Some(segment) = usize::try_from(number).ok().and_then(|number| segments.get(number)) else { continue };
            if reference.length == 0 {
                *reference = Reference { segment: 0, offset: 0, length: 0 };
                continue;
            }
            let strange =
                || Error::Invalid(format!("{} bytes at {} are in no block", reference.length, reference.offset));
            let offset = usize::try_from(reference.offset).map_err(|_| strange())?;
            // A block that an earlier page owns is found by the segment.
            let block = extents.range(..=(number, offset)).next_back().map(|(&place, extent)| (place, extent.len()));
            let contains =
                |&((memfd, start), length): &((u64, usize), usize)| memfd == number && offset < start + length;
            if let Some((place, _)) = block.filter(contains) {
                own.extend(extents.remove(&place));
            }
            reference.segment = segment.ok_or_else(strange)?;
        }
        self.seal(set, spec, own)
    }
}
