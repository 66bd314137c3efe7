//! The words of a source: without comments, what strings say, and what is there for tests alone.

#[derive(Clone, Debug)]
pub struct Word {
    pub text: String,
    pub line: usize,
}

impl Word {
    pub fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// Names, `::`, and single signs. A string or a character is `"`, a lifetime is nothing.
pub fn words(text: &str) -> Vec<Word> {
    let bytes = text.as_bytes();
    let (mut all, mut at, mut line) = (Vec::new(), 0, 1);
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    while at < bytes.len() {
        let (rest, began) = (&bytes[at..], at);
        let mut word = None;
        if rest.starts_with(b"//") {
            at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        } else if rest.starts_with(b"/*") {
            at += text[at..].find("*/").map_or(rest.len(), |end| end + 2);
        } else if let Some(length) = string(&text[at..]) {
            at += length;
            word = Some("\"".to_owned());
        } else if rest[0] == b'\'' {
            let is_char = rest.get(1) == Some(&b'\\') || text[at + 1..].chars().nth(1) == Some('\'');
            let end = |from: usize| rest[from..].iter().position(|b| *b == b'\'').map_or(rest.len(), |n| from + n + 1);
            at += if is_char { end(if rest[1] == b'\\' { 3 } else { 2 }) } else { 1 };
            // The name of a lifetime.
            while !is_char && at < bytes.len() && is_part(bytes[at]) {
                at += 1;
            }
        } else if is_part(rest[0]) {
            at += rest.iter().position(|b| !is_part(*b)).unwrap_or(rest.len());
            word = Some(text[began..at].to_owned());
        } else if rest.starts_with(b"::") {
            at += 2;
            word = Some("::".to_owned());
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
            word = Some(text[began..at].to_owned()).filter(|sign| !sign.trim().is_empty());
        }
        all.extend(word.map(|text| Word { text, line }));
        line += bytes[began..at].iter().filter(|b| **b == b'\n').count();
    }
    all
}

/// The length of the string that begins here, of any kind.
fn string(text: &str) -> Option<usize> {
    let rest = text.trim_start_matches(['b', 'c']);
    let letters = text.len() - rest.len();
    if letters > 1 {
        return None;
    }
    if let Some(raw) = rest.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inside = raw[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(text.len() - inside.len() + inside.find(&end).map_or(inside.len(), |n| n + end.len()));
    }
    let inside = rest.strip_prefix('"')?;
    let mut escaped = false;
    for (n, b) in inside.bytes().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(text.len() - inside.len() + n + 1),
            _ => (),
        }
    }
    Some(text.len())
}

/// The same without what is compiled for tests alone.
pub fn without_tests(words: &[Word]) -> Vec<Word> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < words.len() {
        let is = |n: usize, text: &str| words.get(at + n).is_some_and(|w| w.text == text);
        let plain = is(2, "cfg") && is(4, "test") && is(5, ")");
        let with_others = is(2, "cfg") && is(4, "all") && is(6, "test");
        if is(0, "#") && is(1, "[") && (plain || with_others) {
            at = after_item(words, after_bracket(words, at + 1));
        } else {
            kept.push(words[at].clone());
            at += 1;
        }
    }
    kept
}

/// Behind the bracket that closes the one here.
pub fn after_bracket(words: &[Word], open: usize) -> usize {
    let mut depth = 0;
    for (at, word) in words.iter().enumerate().skip(open) {
        match word.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => (),
        }
        if depth == 0 {
            return at + 1;
        }
    }
    words.len()
}

/// Behind the item, statement, field or arm that begins here.
fn after_item(words: &[Word], mut at: usize) -> usize {
    const ITEMS: [&str; 15] = [
        "fn",
        "mod",
        "use",
        "struct",
        "impl",
        "const",
        "static",
        "enum",
        "type",
        "trait",
        "unsafe",
        "extern",
        "let",
        "macro_rules",
        "pub",
    ];
    while words.get(at).is_some_and(|w| w.text == "#") {
        at = after_bracket(words, at + 1);
    }
    let is_item = words.get(at).is_some_and(|w| ITEMS.contains(&w.text.as_str()));
    while at < words.len() {
        match words[at].text.as_str() {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            "}" | ")" | "]" => return at,
            "{" => return after_bracket(words, at),
            "(" | "[" => at = after_bracket(words, at),
            _ => at += 1,
        }
    }
    at
}
