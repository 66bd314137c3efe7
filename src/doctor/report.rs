//! What `doctor` has found, as lines for people and as data for programs.
//!
//! Invariant: every finding that is broken says how to mend it, and the last that is printed is the verdict.

use crate::output;
use serde_json::{Map, Value, json};

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grade {
    Good,
    Odd,
    Broken,
}

struct Finding {
    section: &'static str,
    grade: Grade,
    text: String,
    mend: Option<String>,
}

#[derive(Default)]
pub struct Report {
    section: &'static str,
    findings: Vec<Finding>,
    /// What the sections have found, for programs.
    data: Map<String, Value>,
}

impl Report {
    pub fn title(&mut self, text: &'static str) {
        self.section = text;
    }

    pub fn line(&mut self, grade: Grade, text: &str) {
        self.findings.push(Finding { section: self.section, grade, text: text.into(), mend: None });
    }

    /// How to mend what the last line says.
    pub fn mend(&mut self, text: &str) {
        if let Some(last) = self.findings.last_mut() {
            last.mend = Some(text.into());
        }
    }

    pub fn put(&mut self, key: &str, value: Value) {
        self.data.insert(key.into(), value);
    }

    pub fn is_broken(&self) -> bool {
        self.count(Grade::Broken) > 0
    }

    fn count(&self, grade: Grade) -> usize {
        self.findings.iter().filter(|f| f.grade == grade).count()
    }

    fn problems(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.grade != Grade::Good)
    }

    /// What is in order in the sections that `shown` names, then the problems and the verdict.
    pub fn print(&self, shown: impl Fn(&str) -> bool) {
        let (mut section, mut text) = ("", String::new());
        for f in self.findings.iter().filter(|f| f.grade == Grade::Good && shown(f.section)) {
            if f.section != section {
                section = f.section;
                text += &format!("{section}\n");
            }
            text += &f.text("");
        }
        if self.problems().next().is_some() {
            text += "problems\n";
            self.problems().for_each(|f| text += &f.text(&format!("{}: ", f.section)));
        }
        output::write(&format!("{text}{}\n", self.verdict()));
    }

    fn verdict(&self) -> String {
        let number = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (broken, odd) = (self.count(Grade::Broken), self.count(Grade::Odd));
        let known = if odd == 0 { String::new() } else { format!("; {} to know of", number(odd, "thing")) };
        match broken {
            0 => format!("nothing is broken{known}"),
            _ => format!("something is broken: {} to mend{known}", number(broken, "problem")),
        }
    }

    pub fn print_json(&self) {
        let problem = |f: &Finding| {
            let grade = if f.grade == Grade::Broken { "broken" } else { "odd" };
            json!({ "section": f.section, "grade": grade, "text": f.text, "mend": f.mend })
        };
        let mut all = self.data.clone();
        all.insert("version".into(), env!("CARGO_PKG_VERSION").into());
        all.insert("problems".into(), self.problems().map(problem).collect());
        all.insert("verdict".into(), if self.is_broken() { "broken" } else { "good" }.into());
        output::write(&format!("{:#}\n", Value::Object(all)));
    }
}

impl Finding {
    fn text(&self, before: &str) -> String {
        let sign = match self.grade {
            Grade::Good => "   ",
            Grade::Odd => " ? ",
            Grade::Broken => " ! ",
        };
        let mend = self.mend.as_ref().map_or(String::new(), |mend| format!("     to mend it: {mend}\n"));
        format!("{sign}{before}{}\n{mend}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_counts() {
        let mut r = Report::default();
        assert_eq!(r.verdict(), "nothing is broken");
        r.line(Grade::Odd, "x");
        assert_eq!(r.verdict(), "nothing is broken; 1 thing to know of");
        r.line(Grade::Broken, "y");
        r.line(Grade::Broken, "z");
        assert_eq!(r.verdict(), "something is broken: 2 problems to mend; 1 thing to know of");
    }
}
