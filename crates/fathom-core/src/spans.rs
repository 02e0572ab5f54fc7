//! Spans of time: from (which is in it), to (which is not).

/// The same time in spans that are in order and apart from each other: those that overlap or meet are joined.
pub fn joined<T: Copy + Ord>(all: impl IntoIterator<Item = (T, T)>) -> Vec<(T, T)> {
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_unstable();
    all.dedup_by(|next, last| {
        let meets = next.0 <= last.1;
        if meets {
            last.1 = last.1.max(next.1);
        }
        meets
    });
    all
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn spans_that_overlap_or_meet_are_one() {
        assert_eq!(joined([(20, 30), (0, 5), (25, 27), (30, 31), (-2, 0)]), [(-2, 5), (20, 31)]);
        assert_eq!(joined::<u64>([]), []);
    }
}
