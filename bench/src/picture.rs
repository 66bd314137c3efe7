//! Lines over sizes, both scales logarithmic, as SVG.

use std::fmt::Write;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Neighbours in the list are far apart on the colour wheel.
fn colour(k: usize) -> String {
    format!("hsl({}, 65%, 42%)", 137 * k % 360)
}

/// One picture of named lines. Lines without two points are left out, values that are not above zero too. `label` writes a size.
pub fn draw(title: &str, lines: &[(String, Vec<(f64, f64)>)], label: impl Fn(u64) -> String) -> String {
    let lines: Vec<(&str, Vec<(f64, f64)>)> = lines
        .iter()
        .map(|(name, points)| (name.as_str(), points.iter().copied().filter(|p| p.0 > 0.0 && p.1 > 0.0).collect()))
        .filter(|(_, points): &(_, Vec<_>)| points.len() > 1)
        .collect();
    let all = || lines.iter().flat_map(|(_, points)| points.iter());
    let range = |pick: fn(&(f64, f64)) -> f64| {
        all().map(pick).fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
    };
    let (mut out, (x0, x1), (y0, y1)) = (String::new(), range(|p| p.0), range(|p| p.1));
    let (low, high) = (y0.log10().floor(), y1.log10().ceil());
    let x = |v: f64| LEFT + (WIDTH - LEFT - RIGHT) * (v / x0).log2() / (x1 / x0).log2().max(1.0);
    let y = |v: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (v.log10() - low) / (high - low).max(1.0);
    let mut put = |text: std::fmt::Arguments<'_>| out.write_fmt(text).expect("a string");

    put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"16\">{title}</text>\n"
    ));
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    if lines.is_empty() {
        put(format_args!("</svg>\n"));
        return out;
    }
    for decade in low as i32..=high as i32 {
        let at = y(10f64.powi(decade));
        put(format_args!(
            "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ccc\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 6.0,
            at + 4.0,
            if decade < 0 {
                format!("{:.*}", -decade as usize, 10f64.powi(decade))
            } else {
                format!("{}", 10i64.pow(decade as u32))
            }
        ));
    }
    let mut size = 2f64.powf((x0.log2() / 2.0).ceil() * 2.0);
    while size <= x1 {
        let at = x(size);
        put(format_args!(
            "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#eee\"/>\n\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"end\" transform=\"rotate(-30 {at:.1} {:.1})\">{}</text>\n",
            bottom + 16.0,
            bottom + 16.0,
            label(size as u64)
        ));
        size *= 4.0;
    }
    for (k, (name, points)) in lines.iter().enumerate() {
        let (ours, colour) = (name.starts_with("ours"), colour(k));
        let (width, dash) = (if ours { 3.5 } else { 1.5 }, if name.contains("TCP") { "6 3" } else { "none" });
        let path: Vec<_> = points.iter().map(|p| format!("{:.1} {:.1}", x(p.0), y(p.1))).collect();
        let at = TOP + 12.0 + 20.0 * k as f64;
        put(format_args!(
            "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-dasharray=\"{dash}\"/>\n\
             <path d=\"M{:.1} {:.1}h24\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-dasharray=\"{dash}\"/>\n\
             <text x=\"{:.1}\" y=\"{at:.1}\">{name}</text>\n",
            path.join("L"),
            right + 14.0,
            at - 4.0,
            right + 44.0
        ));
    }
    put(format_args!("</svg>\n"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_two_points_is_drawn_and_a_single_point_is_not() {
        let lines = [("two".to_owned(), vec![(8.0, 0.3), (64.0, 0.4)]), ("one".to_owned(), vec![(8.0, 1.0)])];
        let text = draw("T", &lines, |n| n.to_string());
        assert!(text.contains(">two<") && !text.contains(">one<") && text.trim_end().ends_with("</svg>"));
        assert!(draw("T", &[], |n| n.to_string()).contains("</svg>"));
    }
}
