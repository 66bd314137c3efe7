//! Which names a pattern means.

/// Whether a name begins like the pattern or, if that has a `*`, is like it from end to end.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return name.starts_with(pattern) };
    let Some(mut rest) = name.strip_prefix(head) else { return false };
    let (middle, end) = tail.rsplit_once('*').unwrap_or(("", tail));
    // The first place of each part is as good as any later one.
    for part in middle.split('*').filter(|p| !p.is_empty()) {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name) in [
            ("", "ocean"),
            ("urn:site", "urn:site:ocean"),
            ("urn:site:*", "urn:site:"),
            ("urn:*:ocean", "urn:site:ocean"),
            ("*ocean", "ocean"),
            ("*", ""),
            ("**", "x"),
            ("a*b*c", "a-b-b-c"),
            ("*é*", "mer é"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("ocean", "urn:site:ocean"),
            ("urn:*:ocean", "urn:site:ocean2"),
            ("a*a", "a"),
            ("a*b*c", "acb"),
            ("*b*b*", "ab"),
            ("x*", ""),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
