//! The keys `slurm`: what a job needs of an allocation, and what all jobs together ask for in a script.

use super::reader::Reader;
use toml::de::DeTable;

const KEYS: [&str; 4] = ["time", "account", "options", "before"];
const KEYS_OF_JOB: [&str; 5] = ["nodes", "het-group", "partition", "constraint", "options"];

/// What one job needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Nodes that no other job has.
    pub nodes: Option<usize>,
    /// The component of a heterogeneous job.
    pub component: Option<usize>,
    pub partition: Option<String>,
    pub constraint: Option<String>,
    /// Further options of `sbatch`, for its component.
    pub options: Vec<String>,
}

/// What a script asks for besides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    pub time: Option<String>,
    pub account: Option<String>,
    pub options: Vec<String>,
    /// Lines of the shell that stand before the launch.
    pub before: Vec<String>,
}

pub(super) fn request(reader: &mut Reader<'_>, root: &DeTable<'_>) -> Request {
    let Some(table) = self::table(reader, root, &KEYS, "") else { return Request::default() };
    let whose = "slurm: ";
    Request {
        time: value_of_option(reader, table, "time", whose),
        account: value_of_option(reader, table, "account", whose),
        options: options(reader, table, whose),
        before: reader.strings(table, "before", whose).unwrap_or_default(),
    }
}

pub(super) fn needs(reader: &mut Reader<'_>, job: &DeTable<'_>, whose: &str) -> Option<Needs> {
    let table = self::table(reader, job, &KEYS_OF_JOB, whose)?;
    if let Some(host) = job.get("host") {
        reader.problem(host.span(), format!("{whose}a job with slurm runs inside its allocation: it has no host"));
    }
    let whose = format!("{whose}slurm: ");
    Some(Needs {
        nodes: reader.number(table, "nodes", &whose, 1..=1_000_000).map(|n| n as usize),
        component: reader.number(table, "het-group", &whose, 0..=127).map(|n| n as usize),
        partition: value_of_option(reader, table, "partition", &whose),
        constraint: value_of_option(reader, table, "constraint", &whose),
        options: options(reader, table, &whose),
    })
}

fn table<'t, 'i>(reader: &mut Reader<'_>, of: &'t DeTable<'i>, keys: &[&str], whose: &str) -> Option<&'t DeTable<'i>> {
    let value = of.get("slurm")?;
    let Some(table) = value.get_ref().as_table() else {
        let example = if keys == KEYS { "{ time = \"01:00:00\" }" } else { "{ nodes = 1 }" };
        reader.problem(value.span(), format!("{whose}slurm: a table is expected, such as {example}"));
        return None;
    };
    reader.keys(table, keys, &format!("{whose}slurm: "));
    Some(table)
}

/// A text that ends where a word of an option ends.
fn value_of_option(reader: &mut Reader<'_>, table: &DeTable<'_>, key: &str, whose: &str) -> Option<String> {
    let text = reader.string(table, key, whose)?;
    if text.is_empty() || text.contains(char::is_whitespace) {
        reader.expected(table.get(key)?, key, whose, "one word");
    }
    Some(text)
}

fn options(reader: &mut Reader<'_>, table: &DeTable<'_>, whose: &str) -> Vec<String> {
    let all = reader.strings(table, "options", whose).unwrap_or_default();
    if let Some(value) = table.get("options")
        && all.iter().any(|option| !option.starts_with('-') || option.contains('\n'))
    {
        reader.expected(value, "options", whose, "a list of options, such as [\"--mem=0\"],");
    }
    all
}
