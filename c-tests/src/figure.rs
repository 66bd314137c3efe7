//! What the tests found out, in numbers: printed, and kept for the end of `make test`.

use crate::figures;
use std::fmt::Display;

/// A small table, written to `target/figures/NAME.txt` when dropped.
pub struct Figure {
    name: String,
    text: String,
    quiet: bool,
}

impl Figure {
    /// `name` begins with two digits: they give the order in which figures are shown.
    pub fn new(name: &str, title: impl Display) -> Figure {
        Figure { name: name.into(), text: format!("{title}\n"), quiet: false }
    }

    /// One that is kept, and not printed.
    pub(crate) fn quiet(name: &str, title: impl Display) -> Figure {
        let mut figure = Figure::new(name, title);
        figure.quiet = true;
        figure
    }

    pub fn line(&mut self, line: impl Display) {
        self.text += &format!("  {line}\n");
    }

    /// Rows of cells in aligned columns; the first column to the left, the others to the right.
    pub fn table(&mut self, rows: &[Vec<String>]) {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in rows {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[c] - cell.chars().count());
                line += &if c == 0 { format!("{cell}{pad}") } else { format!("  {pad}{cell}") };
            }
            self.line(line.trim_end());
        }
    }
}

impl Drop for Figure {
    fn drop(&mut self) {
        if !self.quiet {
            if std::thread::panicking() {
                self.line("NOT PASSED");
            }
            println!("{}", self.text);
        }
        std::fs::create_dir_all(figures()).expect("target/figures");
        std::fs::write(figures().join(format!("{}.txt", self.name)), &self.text).expect("target/figures");
    }
}
