//! Stable counting sort: groups items by a small integer key.

/// The start of each group in a list of all items sorted by group, then the end of the last group.
pub(crate) fn starts(of: impl IntoIterator<Item = u32>, groups: usize) -> Vec<u32> {
    let mut starts = vec![0_u32; groups + 1];
    for group in of {
        starts[group as usize + 1] += 1;
    }
    for group in 0..groups {
        starts[group + 1] += starts[group];
    }
    starts
}

/// All items stably sorted by group, and the starts of the groups.
pub(crate) fn grouped<T: Copy + Default>(
    items: impl Iterator<Item = (u32, T)> + Clone,
    groups: usize,
) -> (Vec<T>, Vec<u32>) {
    let starts = starts(items.clone().map(|(group, _)| group), groups);
    let mut next = starts.clone();
    let mut found = vec![T::default(); starts[groups] as usize];
    for (group, item) in items {
        let place = &mut next[group as usize];
        found[*place as usize] = item;
        *place += 1;
    }
    (found, starts)
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn items_keep_their_order_within_a_group() {
        let items = [(2, 'a'), (0, 'b'), (2, 'c'), (0, 'd')];
        assert_eq!(grouped(items.into_iter(), 4), (vec!['b', 'd', 'a', 'c'], vec![0, 2, 2, 4, 4]));
        assert_eq!(grouped([].into_iter(), 0), (Vec::<char>::new(), vec![0]));
    }
}
