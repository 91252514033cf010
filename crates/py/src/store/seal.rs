//! Writing encoded data into a page and sealing it.

use arrow_buffer::Buffer;
use craton_slab::Extent;
use craton_store::{DataInfo, Error, Home, PageSpec, SetId};
use craton_wire::Encoded;
use craton_wire::object::encode_object;

use super::buffers::borrowed;
use crate::copy::Copies;
use crate::place::{Placed, place};

/// A page's key, its statistics, and the nanoseconds that making it again takes.
pub type Extra = (Option<Vec<u8>>, Vec<u8>, u64);

/// Write encoded data into a new page of the set. Buffers that are already in a segment of the store are referenced, not copied.
pub fn seal_encoded(home: &dyn Home, set: SetId, encoded: Encoded, extra: Extra) -> craton_store::Result<DataInfo> {
    let (key, statistics, rebuild) = extra;
    let Encoded { header, buffers, rows } = encoded;
    let Placed { references, extents } = place(home, set, &buffers, Vec::new(), true)?;
    let spec = PageSpec { key, header, buffers: references, rows, statistics, rebuild };
    match home.seal(set, spec.clone(), extents) {
        // The memory does not belong to a sealed page: it is an unsealed extent or that of a dropped page. Copy it.
        Err(Error::Invalid(_)) => {
            let Placed { references, extents } = place(home, set, &buffers, Vec::new(), false)?;
            home.seal(set, PageSpec { buffers: references, ..spec }, extents)
        }
        other => other,
    }
}

/// Write a pickled object into a new page of the set. Its metadata may come in several pieces.
pub fn seal_object(
    home: &dyn Home,
    set: SetId,
    meta: &[&[u8]],
    buffers: &[&[u8]],
    extra: Extra,
) -> craton_store::Result<DataInfo> {
    let buffers: Vec<Buffer> = buffers.iter().map(|bytes| borrowed(bytes)).collect();
    let encode = |meta, buffers| encode_object(meta, buffers).map_err(|e| Error::Invalid(e.to_string()));
    if let [meta] = meta {
        return seal_encoded(home, set, encode(borrowed(meta), buffers)?, extra);
    }
    let once = |share| {
        // Join the pieces in the page's own extent.
        let mut granted = home.allocate(set, &[meta.iter().map(|piece| piece.len()).sum()])?;
        let target = granted.first_mut().and_then(Extent::as_mut_slice);
        let target = target.ok_or_else(|| Error::Invalid("no extent was granted that can be written".into()))?;
        let mut copies = Copies::default();
        let mut rest = target;
        for piece in meta {
            let (own, others) = rest.split_at_mut(piece.len());
            copies.push(own, piece);
            rest = others;
        }
        copies.run();
        let joined = borrowed(granted.first().map_or(&[], Extent::as_slice));
        let Encoded { header, buffers, rows } = encode(joined, buffers.clone())?;
        let Placed { references, extents } = place(home, set, &buffers, granted, share)?;
        let (key, statistics, rebuild) = extra.clone();
        let spec = PageSpec { key, header, buffers: references, rows, statistics, rebuild };
        home.seal(set, spec, extents)
    };
    match once(true) {
        Err(Error::Invalid(_)) => once(false),
        other => other,
    }
}
