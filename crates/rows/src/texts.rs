//! Copies texts from views, as the kernel has them, to bytes with offsets, as pandas has them.
//!
//! A view has 16 bytes: the length, then either the text itself, if it has at most 12 bytes, or its first four bytes, the number of a buffer,
//! and the place in it. Source: "Variable-size Binary View Layout" of the Arrow columnar format.

use rayon::prelude::*;

/// The longest text that is in its view.
const INLINE: usize = 12;
/// Texts that one task copies.
const PIECE: usize = 1 << 15;

/// A view of a text.
pub type View = [u8; 16];

/// A text that is not where its view says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfBounds;

/// Which texts are there: a bit for each, least significant first.
pub type Present<'a> = Option<&'a [u8]>;

fn is_present(present: Present<'_>, row: usize) -> bool {
    present.is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1)
}

fn number(view: &View, at: usize) -> usize {
    u32::from_le_bytes([view[at], view[at + 1], view[at + 2], view[at + 3]]) as usize
}

fn length(view: &View, present: Present<'_>, row: usize) -> usize {
    if is_present(present, row) { number(view, 0) } else { 0 }
}

/// Write where each text begins, and where the last one ends; return that end. Missing texts have no bytes.
///
/// # Panics
///
/// If there is not one more offset than views, or a bit is missing.
pub fn offsets_of_texts(views: &[View], present: Present<'_>, offsets: &mut [i64]) -> usize {
    assert_eq!(views.len() + 1, offsets.len(), "there must be an offset more than views");
    let sum = |(piece, views): (usize, &[View])| -> usize {
        views.iter().enumerate().map(|(row, view)| length(view, present, piece * PIECE + row)).sum()
    };
    let sums: Vec<usize> = views.par_chunks(PIECE).enumerate().map(sum).collect();
    let mut starts = Vec::with_capacity(sums.len());
    let mut end = 0;
    for sum in sums {
        starts.push(end);
        end += sum;
    }
    let (first, rest) = offsets.split_first_mut().expect("there is an offset");
    *first = 0;
    rest.par_chunks_mut(PIECE).zip(views.par_chunks(PIECE)).enumerate().for_each(|(piece, (offsets, views))| {
        let mut end = starts[piece];
        for (row, (offset, view)) in offsets.iter_mut().zip(views).enumerate() {
            end += length(view, present, piece * PIECE + row);
            *offset = end as i64;
        }
    });
    end
}

/// Copy the texts to where [`offsets_of_texts`] has found that they begin.
///
/// # Errors
///
/// [`OutOfBounds`] if a view names bytes that are in no buffer.
///
/// # Panics
///
/// If the offsets are not those of the views, or `out` has another length than their end.
pub fn copy_texts(views: &[View], buffers: &[&[u8]], offsets: &[i64], out: &mut [u8]) -> Result<(), OutOfBounds> {
    assert_eq!(views.len() + 1, offsets.len(), "there must be an offset more than views");
    assert_eq!(offsets.last().map(|&end| end as usize), Some(out.len()), "out must have room for all texts");
    let mut rest = out;
    let mut pieces = Vec::with_capacity(views.len().div_ceil(PIECE));
    for (number, views) in views.chunks(PIECE).enumerate() {
        let offsets = &offsets[number * PIECE..=number * PIECE + views.len()];
        let bytes = (offsets[views.len()] - offsets[0]) as usize;
        let (piece, after) = rest.split_at_mut(bytes);
        rest = after;
        pieces.push((views, offsets, piece));
    }
    pieces.into_par_iter().try_for_each(|(views, offsets, out)| copy_piece(views, buffers, offsets, out))
}

fn copy_piece(views: &[View], buffers: &[&[u8]], offsets: &[i64], out: &mut [u8]) -> Result<(), OutOfBounds> {
    let mut start = 0;
    for (view, pair) in views.iter().zip(offsets.windows(2)) {
        let length = (pair[1] - pair[0]) as usize;
        if length <= INLINE {
            // Always all bytes of the view where there is room: what is too much is overwritten by the next text.
            if let Some(room) = out.get_mut(start..start + INLINE) {
                room.copy_from_slice(&view[4..]);
            } else {
                out[start..start + length].copy_from_slice(&view[4..4 + length]);
            }
        } else {
            let place = number(view, 12);
            let text = buffers.get(number(view, 8)).and_then(|buffer| buffer.get(place..place + length));
            out[start..start + length].copy_from_slice(text.ok_or(OutOfBounds)?);
        }
        start += length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view_of(text: &[u8], buffer: &mut Vec<u8>) -> View {
        let mut view = [0; 16];
        view[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
        if text.len() <= INLINE {
            view[4..4 + text.len()].copy_from_slice(text);
        } else {
            view[4..8].copy_from_slice(&text[..4]);
            view[12..].copy_from_slice(&(buffer.len() as u32).to_le_bytes());
            buffer.extend(text);
        }
        view
    }

    fn copied(views: &[View], buffers: &[&[u8]], present: Present<'_>) -> Result<(Vec<i64>, Vec<u8>), OutOfBounds> {
        let mut offsets = vec![-1; views.len() + 1];
        let mut out = vec![0; offsets_of_texts(views, present, &mut offsets)];
        copy_texts(views, buffers, &offsets, &mut out)?;
        Ok((offsets, out))
    }

    #[test]
    fn texts_of_all_lengths_and_missing_ones() {
        for count in [0, 1, 5, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7] {
            let texts: Vec<Vec<u8>> = (0..count).map(|row| vec![(row % 251) as u8; row * 7919 % 31]).collect();
            let mut buffer = vec![];
            let views: Vec<View> = texts.iter().map(|text| view_of(text, &mut buffer)).collect();
            let bits: Vec<u8> = (0..count.div_ceil(8)).map(|byte| (byte * 37 % 256) as u8).collect();
            for present in [None, Some(bits.as_slice())] {
                let (offsets, out) = copied(&views, &[&buffer], present).unwrap();
                let mut end = 0;
                for (row, text) in texts.iter().enumerate() {
                    let expected: &[u8] = if is_present(present, row) { text } else { &[] };
                    assert_eq!(offsets[row], end as i64);
                    assert_eq!(&out[end..end + expected.len()], expected);
                    end += expected.len();
                }
                assert_eq!((offsets[count], out.len()), (end as i64, end));
            }
        }
    }

    #[test]
    fn texts_outside_of_the_buffers_are_refused() {
        let mut buffer = vec![];
        let views = [view_of(b"a text of more than twelve bytes", &mut buffer)];
        assert_eq!(copied(&views, &[], None), Err(OutOfBounds));
        assert_eq!(copied(&views, &[&buffer[1..]], None), Err(OutOfBounds));
        assert!(copied(&views, &[&buffer], None).is_ok());
        assert_eq!(copied(&views, &[], Some(&[0])), Ok((vec![0, 0], vec![])));
    }
}
