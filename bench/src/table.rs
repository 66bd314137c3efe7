//! Tables: on the screen in aligned columns, in a document as Markdown.

#[derive(Default)]
pub struct Table {
    pub title: String,
    /// The first row is the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(title: impl Into<String>, head: &[&str]) -> Table {
        Table { title: title.into(), rows: vec![head.iter().map(|h| h.to_string()).collect()] }
    }

    /// Whether there is anything below the head.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    pub fn screen(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = format!("{}\n", self.title);
        for row in &self.rows {
            let mut line = String::from("  ");
            for (c, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[c] - cell.chars().count());
                line += &if c == 0 { format!("{cell}{pad}") } else { format!("  {pad}{cell}") };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }

    pub fn markdown(&self) -> String {
        let mut text = format!("{}\n\n", self.title);
        for (i, row) in self.rows.iter().enumerate() {
            text += &format!("| {} |\n", row.join(" | "));
            if i == 0 {
                text += &format!("|---|{}\n", "--:|".repeat(row.len().saturating_sub(1)));
            }
        }
        text
    }
}

/// Three figures that count, without an exponent.
pub fn number(value: f64) -> String {
    let digits =
        if !value.is_finite() || value == 0.0 { 0 } else { (2 - value.abs().log10().floor() as i32).clamp(0, 4) };
    format!("{value:.*}", digits as usize)
}

pub fn or_not(value: Option<f64>) -> String {
    value.map_or("-".into(), number)
}

pub fn bytes(n: u64) -> String {
    match n {
        n if n >= 1 << 20 && n % (1 << 20) == 0 => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 && n % (1 << 10) == 0 => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes() {
        assert_eq!([0.2634, 3.456, 45.67, 1234.5].map(number), ["0.263", "3.46", "45.7", "1234"]);
        assert_eq!([0, 8, 1000, 65536, 1 << 26].map(bytes), ["0 B", "8 B", "1000 B", "64 KiB", "64 MiB"]);
    }

    #[test]
    fn a_table_both_ways() {
        let mut table = Table::new("T", &["", "a"]);
        assert!(table.is_empty());
        table.rows.push(vec!["row".into(), "10".into()]);
        assert_eq!(table.screen(), "T\n        a\n  row  10\n");
        assert_eq!(table.markdown(), "T\n\n|  | a |\n|---|--:|\n| row | 10 |\n");
    }
}
