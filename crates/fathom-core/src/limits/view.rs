//! The cohorts of a search that goes on, as a picture of a few lines.

use crate::units::duration_compact as duration;

/// How many connections of one length are how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// The length, in ns.
    pub length_ns: u64,
    /// Connections that are to be opened.
    pub to_open: u32,
    /// Connections that are open, and whose length is not over.
    pub open: u32,
    /// Those that survived it.
    pub survived: u32,
    /// Those that died.
    pub died: u32,
    /// Those of which nothing can be said.
    pub void: u32,
}

impl Standing {
    fn letter(&self) -> char {
        match (self.survived, self.died) {
            (1.., 1..) => '!',
            (1.., 0) => '+',
            (0, 1..) => 'x',
            (0, 0) if self.open > 0 => '.',
            (0, 0) if self.to_open > 0 => ' ',
            (0, 0) => '-',
        }
    }
}

/// What the letters mean.
const LEGEND: &str = "+ survived   x died   ! some of each   . idle   - nothing can be said";
/// Columns before the letters, for the shortest length of a line.
const SCALE: usize = 9;

/// A letter a length, from the shortest, in lines of `columns` that name their first length; and what the letters mean.
/// Nothing where there is no room for it.
pub fn picture(lengths: &[Standing], columns: usize, rows: usize) -> Vec<String> {
    let room = columns.saturating_sub(SCALE + 2);
    if room < 10 || lengths.is_empty() || lengths.len().div_ceil(room) + 1 > rows || LEGEND.len() >= columns {
        return Vec::new();
    }
    let lines = lengths.chunks(room).map(|line| {
        let letters: String = line.iter().map(Standing::letter).collect();
        format!("{:>SCALE$} {letters}", duration(line[0].length_ns)).trim_end().to_owned()
    });
    lines.chain([LEGEND.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn picture_marks_each_length_with_a_letter() {
        let standing = |survived, died, open, to_open, void| Standing {
            length_ns: S,
            to_open,
            open,
            survived,
            died,
            void,
        };
        let all = [
            standing(3, 0, 0, 0, 0),
            standing(2, 0, 1, 0, 0),
            standing(1, 2, 0, 0, 0),
            standing(0, 1, 2, 0, 0),
            standing(0, 0, 3, 0, 0),
            standing(0, 0, 0, 0, 3),
            standing(0, 0, 0, 3, 0),
        ];
        assert_eq!(picture(&all, 80, 10), ["       1s ++!x.-", LEGEND]);
        let many: Vec<Standing> =
            (1..=100).map(|n| Standing { length_ns: n * S, open: 1, ..Standing::default() }).collect();
        let lines = picture(&many, 80, 3);
        assert_eq!(lines.len(), 3);
        assert!(
            lines[0].starts_with("       1s ....") && lines[1].starts_with("   1m 10s ...."),
            "{lines:?}"
        );
        assert!(lines.iter().all(|line| line.chars().count() < 80), "{lines:?}");
    }

    #[test]
    fn view_without_room_is_empty() {
        let many: Vec<Standing> =
            (1..=100).map(|n| Standing { length_ns: n * S, ..Standing::default() }).collect();
        assert!(picture(&many, 80, 2).is_empty() && picture(&many, 40, 50).is_empty());
        assert!(picture(&[], 80, 50).is_empty());
    }
}
