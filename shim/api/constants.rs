// Reads `constants.txt` and turns the rows that are used into the struct `Abi`. Used by build.rs, and by the test that
// compares the rows with each `mpi.h`.

use super::Family;
use std::fmt::Write;

/// The number of columns with values.
const COLUMNS: usize = Family::ALL.len();

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Int(i64),
    /// A lower bound: no member of the family has a smaller number.
    Least(i64),
    /// A number that older members of the family lack.
    Late(i64),
    /// The address of a symbol of the MPI library.
    Address(String),
    /// In the header, but not used by this library.
    Forwarded,
    /// In the header, but not a value.
    Empty,
    /// Not in the header.
    Absent,
    /// Not in the header; the constant of this name is used instead.
    Instead(String),
    /// In some headers, but not a value; the constant of this name is used instead.
    EmptyInstead(String),
}

#[derive(Clone, Debug)]
pub struct Row {
    pub name: String,
    /// Field and type of the struct `Abi`.
    pub used: Option<(String, String)>,
    /// The basic types of a predefined datatype; empty for all other constants.
    pub kinds: Vec<String>,
    pub values: [Value; COLUMNS],
}

pub fn parse(table: &str) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = Vec::new();
    for line in table.lines().filter(|l| !l.starts_with('#') && !l.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, used, values @ ..] = words.as_slice() else { return Err(format!("half a row: {line}")) };
        let (used, kinds) = used.split_once('@').unwrap_or((used, ""));
        let kinds = kinds.split(',').filter(|k| !k.is_empty()).map(str::to_owned).collect();
        let used = match used {
            "" => None,
            "." => None,
            used => {
                let (field, of) = used.split_once(':').ok_or(format!("{name}: {used} is not FIELD:TYPE"))?;
                Some((field.to_owned(), of.to_owned()))
            }
        };
        let values: Vec<Value> =
            values.iter().map(|v| value(v)).collect::<Option<_>>().ok_or(format!("value in: {line}"))?;
        let values = values.try_into().map_err(|_| format!("{name}: {COLUMNS} columns of values"))?;
        if rows.iter().any(|r| r.name == *name) {
            return Err(format!("{name}: twice"));
        }
        rows.push(Row { name: name.to_string(), used, kinds, values });
    }
    Ok(rows)
}

fn value(word: &str) -> Option<Value> {
    Some(match word {
        "~" => Value::Forwarded,
        "x" => Value::Empty,
        "-" => Value::Absent,
        _ if word.starts_with(">=") => Value::Least(word[2..].parse().ok()?),
        _ if word.ends_with('?') => Value::Late(word[..word.len() - 1].parse().ok()?),
        _ if word.starts_with("x=") => Value::EmptyInstead(word[2..].to_owned()),
        _ => match (word.strip_prefix('&'), word.strip_prefix('='), word.strip_prefix("0x")) {
            (Some(symbol), _, _) => Value::Address(symbol.to_owned()),
            (_, Some(name), _) => Value::Instead(name.to_owned()),
            (_, _, Some(digits)) => Value::Int(i64::from_str_radix(digits, 16).ok()?),
            _ => Value::Int(word.parse().ok()?),
        },
    })
}

fn literal(value: &Value) -> Option<String> {
    match value {
        Value::Int(v) | Value::Least(v) | Value::Late(v) => Some(format!("Const::Int({v})")),
        Value::Address(symbol) => Some(format!("Const::Address(c\"{symbol}\")")),
        _ => None,
    }
}

/// The value of a used row for a family.
fn constant(rows: &[Row], row: &Row, column: usize) -> Result<String, String> {
    let mut value = &row.values[column];
    if let Value::Instead(name) | Value::EmptyInstead(name) = value {
        let other = rows.iter().find(|r| r.name == *name).ok_or(format!("{}: no row {name}", row.name))?;
        value = &other.values[column];
    }
    literal(value).ok_or_else(|| format!("{}: used, but {} gives no value for it", row.name, Family::ALL[column]))
}

pub fn generate(rows: &[Row]) -> Result<String, String> {
    let used: Vec<(&Row, &str, &str)> =
        rows.iter().filter_map(|r| r.used.as_ref().map(|(f, t)| (r, f.as_str(), t.as_str()))).collect();
    let n = used.len();
    let mut out = String::new();
    let mut lines = |line: String| writeln!(out, "{line}").map_err(|e| e.to_string());
    lines(format!("/// How many constants are used.\npub const CONSTANTS: usize = {n};"))?;
    lines("/// The MPI below: its family, and the constants that are used, resolved.\npub struct Abi {".into())?;
    lines(
        "    pub family: &'static Traits,\n    /// The bits of a register that a handle occupies.\n    pub mask: u64,"
            .into(),
    )?;
    for (row, field, of) in &used {
        lines(format!("    /// `{}`\n    pub {field}: {of},", row.name))?;
    }
    lines("}\nimpl Abi {".into())?;
    lines("    pub(super) fn of(family: &'static Traits, mask: u64, values: [i64; CONSTANTS]) -> Abi {".into())?;
    lines("        Abi {\n            family,\n            mask,".into())?;
    for (i, (_, field, _)) in used.iter().enumerate() {
        lines(format!("            {field}: FromConst::from_const(values[{i}], mask),"))?;
    }
    lines("        }\n    }\n}".into())?;
    lines(format!(
        "/// The constants that are used, by family.\npub(super) const VALUES: [[Const; CONSTANTS]; {COLUMNS}] = ["
    ))?;
    for column in 0..COLUMNS {
        let values: Vec<_> = used.iter().map(|(row, ..)| constant(rows, row, column)).collect::<Result<_, _>>()?;
        lines(format!("    [{}],", values.join(", ")))?;
    }
    lines(format!(
        "];\n/// What predefined datatypes consist of, by family.\npub(super) const KINDS: [&[(Const, &str, &[Kind])]; {COLUMNS}] = ["
    ))?;
    for column in 0..COLUMNS {
        lines("    &[".into())?;
        for row in rows.iter().filter(|r| !r.kinds.is_empty()) {
            let kinds: Vec<_> = row.kinds.iter().map(|k| format!("Kind::{k}")).collect();
            if let Some(datatype) = literal(&row.values[column]) {
                lines(format!("        ({datatype}, \"{}\", &[{}]),", row.name, kinds.join(", ")))?;
            }
        }
        lines("    ],".into())?;
    }
    lines("];".into())?;
    Ok(out)
}
