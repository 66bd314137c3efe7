//! What docs/glossary.md, README.md and the walks of docs/design.md say lives in a file is in that file.

use std::fs;
use std::path::Path;

fn read(file: &str) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).ok()
}

fn page(name: &str) -> String {
    read(name).unwrap_or_else(|| panic!("{name} cannot be read"))
}

/// The texts between backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// What is wrong with a cell: files, each followed by what it contains.
fn check(said: &[&str]) -> Vec<String> {
    let is_file = |text: &str| text.contains('/') && text.ends_with(".rs");
    let mut wrong = Vec::new();
    let (mut text, mut file, mut found) = (String::new(), "", 0);
    for one in said {
        if is_file(one) {
            file = one;
            match read(one) {
                Some(read) => text = read,
                None => wrong.push(format!("there is no file {one}")),
            }
        } else {
            found += 1;
            if !text.contains(one) {
                wrong.push(format!("{file} does not contain '{one}'"));
            }
        }
    }
    if file.is_empty() || found == 0 {
        wrong.push(format!("names no file with what it contains: {said:?}"));
    }
    wrong
}

#[test]
fn every_name_is_where_the_glossary_says() {
    let page = page("docs/glossary.md");
    let mut wrong = Vec::new();
    let mut names = Vec::new();
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| our name |"));
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, elsewhere, what, place] = cells[..] else { panic!("not of four columns: {row}") };
        assert!(!elsewhere.is_empty() && what.split(' ').count() >= 4, "too little is said: {row}");
        wrong.extend(check(&quoted(place)).into_iter().map(|e| format!("{name}: {e}")));
        names.push(name.to_owned());
    }
    assert!(names.len() >= 60, "{names:?}");
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all, "no name twice");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// README.md answers three questions by files and functions.
#[test]
fn every_answer_of_the_readme_is_in_its_file() {
    let page = page("README.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| question | where |")).skip(2);
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with("| ")).collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    // A name of MPI's is no place.
    let places = |row| quoted(row).into_iter().filter(|text| !text.starts_with("MPI_")).collect::<Vec<_>>();
    let wrong: Vec<String> = rows.iter().flat_map(|row| check(&places(row))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A walk is a heading that ends with the number of its hops, and a list of hops: 1. `file`: `function`.
#[test]
fn every_hop_of_a_walk_is_in_its_file() {
    let page = page("docs/design.md");
    let section = page.lines().skip_while(|line| *line != "## Five walks").skip(1);
    let mut wrong = Vec::new();
    let mut walks: Vec<(&str, usize)> = Vec::new();
    for line in section.take_while(|line| !line.starts_with("## ")) {
        if let Some(title) = line.strip_prefix("### ") {
            walks.push((title, 0));
        }
        let Some((number, hop)) = line.split_once(". `") else { continue };
        let Ok(number) = number.parse::<usize>() else { continue };
        let (title, last) = walks.last_mut().expect("a hop is of a walk");
        *last += 1;
        if number != *last {
            wrong.push(format!("{title}: hop {number} is number {last}"));
        }
        let hop = format!("`{hop}");
        let said = quoted(&hop);
        let [file, function, ..] = said[..] else { panic!("names no function: {line}") };
        // What the build makes is named as the generator writes it.
        let defined = if file.ends_with("generate.rs") { function.to_owned() } else { format!("fn {function}") };
        wrong.extend(check(&[file, &defined]).into_iter().map(|e| format!("{title}, hop {number}: {e}")));
    }
    for (title, hops) in &walks {
        if !title.ends_with(&format!(": {hops} hops")) {
            wrong.push(format!("'{title}' has {hops} hops"));
        }
    }
    assert_eq!(walks.len(), 5, "{walks:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
