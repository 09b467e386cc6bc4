//! Aligned tables for people.

/// Rows of cells under a head, columns padded to their widest cell.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column names.
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self {
            rows: vec![head.into_iter().map(Into::into).collect()],
        }
    }

    /// Adds a row.
    pub fn push<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table as text, a line a row.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
        };
        let widths: Vec<_> = (0..columns)
            .map(|column| width(column).unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells: Vec<_> = row
                .iter()
                .zip(&widths)
                .map(|(cell, &width)| format!("{cell:width$}"))
                .collect();
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_are_padded_to_their_widest_cell() {
        let mut table = Table::new(["a", "wide"]);
        table.push(["long cell", "b"]);
        table.push(["c"]);
        assert_eq!(table.render(), "a          wide\nlong cell  b\nc\n");
    }
}
