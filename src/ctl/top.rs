//! `mpi-connect top`: a live screen of a job's connections.
//!
//! One thread asks the job, and those that it is joined with; this one draws, and reads keys. It waits for the other one never: a job that does
//! not answer keeps nobody at the screen, and is told while it is waited for. `Screen` is drawn on any backend of
//! ratatui, so it is tested, and written as text, without a terminal. Invariant: text of others is drawn cell by cell, without
//! control characters.

use super::client::{Client, CtlError, Job, seconds};
use super::columns::{Columns, peers};
use super::figures::{Rate, Sample, bytes, count, time};
use super::lanes::{notes, posted, waits};
use super::words::{brief, silence};
use crate::output;
use crate::shown::printable;
use crate::signals::{self, Over};
use crate::time::utc;
use ratatui::Frame;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    job: Job,
    /// The time between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    every: f64,
    /// Write the screen as text, after two looks, and end
    #[arg(long)]
    once: bool,
}

/// How often keys are looked at.
const KEYS: Duration = Duration::from_millis(50);
/// A leader that has not answered for this long is told.
const LATE: Duration = Duration::from_secs(3);
/// How long another job is waited for, in each look.
const FOR_OTHERS: Duration = Duration::from_secs(2);
/// The screen as text is so wide, unless COLUMNS says otherwise.
const WIDTH: u16 = 132;

pub fn top(args: &Args) -> Result<(), CtlError> {
    let client = Client::new(&args.job)?;
    let every = Duration::from_secs_f64(args.every);
    if args.once {
        let mut asks = Asks::new(client, args.job.clone());
        let first = asks.look(&|_| ())?;
        std::thread::sleep(every);
        let mut screen = Screen::new(asks.client.name(), args.every);
        screen.looks = Some((asks.look(&|_| ())?, Some(first)));
        let width = std::env::var("COLUMNS").ok().and_then(|w| w.parse().ok()).unwrap_or(WIDTH);
        output::write(&screen.text(width));
        return Ok(());
    }
    if !io::stdout().is_terminal() {
        return Err(CtlError::Terminal(io::Error::other("the output is no terminal")));
    }
    let mut screen = Screen::new(client.name(), args.every);
    let asks = Asks::new(client, args.job.clone());
    let over = signals::tell().map_err(CtlError::Terminal)?;
    let (give, take) = channel();
    // It ends with the process, perhaps in the middle of a look.
    std::thread::spawn(move || asks.go_on(every, &give));
    show(&mut screen, &take, &over).map_err(CtlError::Terminal)?;
    over.get().map_or(Ok(()), |signal| Err(CtlError::Interrupted(*signal)))
}

/// Shows the screen until a key ends it, or a signal.
fn show(screen: &mut Screen, take: &Receiver<News>, over: &Over) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let shown = loop {
        if let Err(e) = terminal.draw(|frame| screen.draw(frame)) {
            break Err(e);
        }
        match event::poll(KEYS).and_then(|some| if some { event::read().map(Some) } else { Ok(None) }) {
            Ok(Some(event)) if screen.key(&event) => break Ok(()),
            Ok(_) => (),
            Err(e) => break Err(e),
        }
        if over.get().is_some() {
            break Ok(());
        }
        while let Ok(news) = take.try_recv() {
            screen.come(news);
        }
    };
    ratatui::try_restore()?;
    shown
}

/// What was seen at one moment: of the job, and of those that it is joined with.
struct Look {
    job: Sample,
    others: BTreeMap<String, Sample>,
    /// The other jobs that have not answered for so many seconds.
    silent: BTreeMap<String, f64>,
    at: u64,
}

/// What the thread that asks has to tell.
enum News {
    /// It asks the job.
    Asks,
    /// The job has answered.
    Answered,
    Look(Result<Look, CtlError>),
}

/// Asks the jobs.
struct Asks {
    client: Client,
    job: Job,
    /// The other jobs; `None`: they cannot be asked.
    others: BTreeMap<String, Option<Client>>,
}

impl Asks {
    fn new(client: Client, job: Job) -> Asks {
        Asks { client, job, others: BTreeMap::new() }
    }

    fn look(&mut self, tell: &dyn Fn(News)) -> Result<Look, CtlError> {
        tell(News::Asks);
        let job = self.client.lanes()?;
        tell(News::Answered);
        let (mut others, mut silent) = (BTreeMap::new(), BTreeMap::new());
        for name in job.names().into_values() {
            let find = || self.client.other(&self.job, &name, FOR_OTHERS).ok();
            let known = self.others.entry(name.clone()).or_insert_with(find);
            match known.as_ref().map(Client::lanes) {
                Some(Ok(sample)) => drop(others.insert(name, sample)),
                Some(Err(CtlError::NotAnswering(_, _, seconds))) => drop(silent.insert(name, seconds)),
                // It may have been started anew under its name.
                Some(Err(_)) | None => drop(self.others.remove(&name)),
            }
        }
        Ok(Look { job, others, silent, at: naming::now() })
    }

    /// Looks again and again, until nobody wants it any more.
    fn go_on(mut self, every: Duration, give: &Sender<News>) {
        let tell = |news| drop(give.send(news));
        loop {
            let mut look = self.look(&tell);
            if look.as_ref().is_err_and(|e| !e.is_silence()) {
                // It may have been started anew under its name.
                match Client::new(&self.job) {
                    Ok(client) => {
                        self.client = client;
                        look = self.look(&tell);
                    }
                    Err(CtlError::Nobody { name, .. }) => look = Err(CtlError::Over(name)),
                    Err(_) => (),
                }
            }
            if give.send(News::Look(look)).is_err() {
                return;
            }
            std::thread::sleep(every);
        }
    }
}

/// What is drawn.
struct Screen {
    job: String,
    every: f64,
    /// The last look, and the one before.
    looks: Option<(Look, Option<Look>)>,
    /// Why the last look failed.
    trouble: Option<String>,
    /// Since when the job is asked, and has not answered.
    asked: Option<Instant>,
    /// The first pair that is drawn.
    from: Cell<usize>,
}

/// One line of the table of jobs.
struct Joined {
    name: String,
    over: BTreeMap<String, usize>,
    rates: [Rate; 2],
}

impl Screen {
    fn new(job: &str, every: f64) -> Screen {
        Screen { job: job.into(), every, looks: None, trouble: None, asked: None, from: Cell::new(0) }
    }

    fn come(&mut self, news: News) {
        match news {
            News::Asks => drop(self.asked.get_or_insert_with(Instant::now)),
            News::Answered => self.asked = None,
            News::Look(Ok(look)) => {
                let before = self.looks.take().map(|(last, _)| last);
                (self.looks, self.trouble) = (Some((look, before)), None);
            }
            // It is waited for still.
            News::Look(Err(e)) if e.is_silence() => self.trouble = Some(e.to_string()),
            News::Look(Err(e)) => (self.trouble, self.asked) = (Some(e.to_string()), None),
        }
    }

    /// What is wrong with the job.
    fn trouble(&self) -> Option<String> {
        match self.asked.map(|since| since.elapsed()).filter(|late| *late >= LATE) {
            Some(late) => Some(silence(&self.job, late.as_secs())),
            None => self.trouble.clone(),
        }
    }

    /// Handles a key. True: to end.
    fn key(&mut self, event: &Event) -> bool {
        let Event::Key(key) = event else { return false };
        if key.kind != KeyEventKind::Press {
            return false;
        }
        let from = self.from.get();
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Down | KeyCode::Char('j') => self.from.set(from + 1),
            KeyCode::Up | KeyCode::Char('k') => self.from.set(from.saturating_sub(1)),
            KeyCode::PageDown => self.from.set(from + 10),
            KeyCode::PageUp => self.from.set(from.saturating_sub(10)),
            KeyCode::Home => self.from.set(0),
            _ => (),
        }
        false
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let Some((look, before)) = &self.looks else {
            let text = self.trouble().unwrap_or("waiting for the job to answer".into());
            return frame.render_widget(Paragraph::new(printable(&text)), frame.area());
        };
        let (jobs, notes) = (self.jobs(look, before.as_ref()), self.notes(look));
        // The head is apart, so that it is seen on the lowest screen.
        let [head, rest] = Layout::vertical([Constraint::Length(2), Constraint::Min(0)]).areas(frame.area());
        let heights = [
            Constraint::Length(jobs.len() as u16 + 2),
            Constraint::Min(3),
            Constraint::Length(notes.len().min(12) as u16),
        ];
        let [of_jobs, of_pairs, of_notes] = Layout::vertical(heights).areas(rest);
        frame.render_widget(self.head(look, head.width.into()), head);
        frame.render_widget(jobs_table(jobs, of_jobs.width.into()), of_jobs);
        let pairs = self.pairs(look, before.as_ref());
        // No further than that the last one is seen; all of them, where there is room.
        let rows = usize::from(of_pairs.height).saturating_sub(1).max(1);
        self.from.set(self.from.get().min(pairs.len().saturating_sub(rows)));
        let from = self.from.get();
        frame.render_widget(pairs_table(pairs, from, of_pairs.width.into()), of_pairs);
        frame.render_widget(Paragraph::new(notes), of_notes);
    }

    fn head(&self, look: &Look, width: usize) -> Paragraph<'static> {
        let (all, here) = (look.job.outcomes.len(), look.job.reports().count());
        let hosts: std::collections::BTreeSet<_> = look.job.reports().map(|(_, report)| report.host.clone()).collect();
        let plural = |n: usize, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
        let answering = if all == here {
            String::new()
        } else {
            format!(", {here} of them {}", if here == 1 { "answers" } else { "answer" })
        };
        let (ranks, hosts) = (plural(all, "rank"), plural(hosts.len(), "host"));
        let mut spans = vec![
            Span::styled(printable(&look.job.job), BOLD),
            Span::raw(format!("  {ranks} on {hosts}{answering}  {}", utc(look.at))),
        ];
        for part in ["  q: quit".into(), ", arrows: scroll".into(), format!("  every {} s", self.every)] {
            let used: usize = spans.iter().map(Span::width).sum();
            if used + part.len() <= width {
                spans.push(Span::raw(part));
            }
        }
        let line = Line::from(spans);
        let trouble = self.trouble().map(|why| Line::styled(printable(&why), Style::new().fg(Color::Red)));
        Paragraph::new(vec![line, trouble.unwrap_or_default()])
    }

    /// The part of the time that calls of a job have waited, over all of its ranks.
    fn waited(now: &Sample, before: Option<&Sample>) -> Option<f64> {
        let all: Vec<f64> = now.reports().filter_map(|(rank, _)| Some(now.since(before, rank)?.waited(None))).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    fn jobs(&self, look: &Look, before: Option<&Look>) -> Vec<Vec<String>> {
        let names = look.job.names();
        let mut joined: BTreeMap<u64, Joined> = BTreeMap::new();
        for (rank, report) in look.job.reports() {
            let since = look.job.since(before.map(|b| &b.job), rank);
            for pair in &report.pairs {
                let name = || names.get(&pair.incarnation).cloned().unwrap_or_else(|| "?".into());
                let new = || Joined { name: name(), over: BTreeMap::new(), rates: Default::default() };
                let job = joined.entry(pair.incarnation).or_insert_with(new);
                *job.over.entry(over(&pair.transport).into()).or_default() += 1;
                if let Some(since) = &since {
                    for (sum, rate) in job.rates.iter_mut().zip(since.of(pair)) {
                        sum.messages += rate.messages;
                        sum.bytes += rate.bytes;
                    }
                }
            }
        }
        let here = percent(Self::waited(&look.job, before.map(|b| &b.job)));
        let row = |job: Joined| {
            let there = look.others.get(&job.name);
            let before = before.and_then(|b| b.others.get(&job.name));
            let there = match look.silent.contains_key(&job.name) {
                true => "no answer".into(),
                false => percent(there.and_then(|now| Self::waited(now, before))),
            };
            let over: Vec<_> = job.over.iter().map(|(word, n)| format!("{n} {}", printable(word))).collect();
            let [sent, received] = job.rates.map(|rate| format!("{}/s {}/s", count(rate.messages), bytes(rate.bytes)));
            vec![printable(&job.name), over.join(", "), sent, received, here.clone(), there]
        };
        joined.into_values().map(row).collect()
    }

    /// The lines of the table of pairs, each with its style.
    fn pairs(&self, look: &Look, before: Option<&Look>) -> Vec<(Style, Vec<String>)> {
        let names = look.job.names();
        let mut rows = Vec::new();
        for (rank, report) in look.job.reports() {
            let since = look.job.since(before.map(|b| &b.job), rank);
            for pair in &report.pairs {
                let [sent, received] = since.as_ref().map(|since| since.of(pair)).unwrap_or_default();
                let rate = |rate: Rate| format!("{}/s {}/s", count(rate.messages), bytes(rate.bytes));
                let name = names.get(&pair.incarnation).map_or("?", String::as_str);
                let or_dash = |queue: String| if queue == "0" { "-".into() } else { queue };
                let row = vec![
                    rank.to_string(),
                    format!("{} {}", printable(name), pair.rank),
                    printable(over(&pair.transport)),
                    rate(sent),
                    rate(received),
                    or_dash(pair.unexpected.to_string()),
                    or_dash(posted(pair)),
                    pair.round_trip.map_or("-".into(), |us| time(us.into())),
                    percent(since.as_ref().map(|since| since.waited(Some(pair)))),
                    brief(&pair.why),
                ];
                let style = match (&*pair.transport, &*pair.why) {
                    // Nothing has gone to it yet, or it is idle.
                    ("", "") => Style::new().add_modifier(Modifier::DIM),
                    ("", _) => Style::new().fg(Color::Red),
                    _ => Style::new(),
                };
                rows.push((style, row));
            }
        }
        rows
    }

    /// Who waits for whom, on both sides, and who does not answer.
    fn notes(&self, look: &Look) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for sample in std::iter::once(&look.job).chain(look.others.values()) {
            let job = printable(&sample.job);
            for (rank, report) in sample.reports() {
                lines.extend(report.waits.iter().map(|wait| Line::raw(format!("{job}: {}", waits(rank, wait)))));
            }
            lines.extend(notes(sample).into_iter().map(|line| Line::styled(line, Style::new().fg(Color::Red))));
        }
        let silent = look.silent.iter().map(|(name, seconds)| printable(&silence(name, seconds)));
        lines.extend(silent.map(|line| Line::styled(line, Style::new().fg(Color::Red))));
        lines
    }

    /// The screen as text, as high as it has lines.
    fn text(&self, width: u16) -> String {
        let lines = self.looks.as_ref().map_or(1, |(look, before)| {
            // Two for the head, one behind the jobs, heads of two tables, and at least one line of pairs.
            6 + self.jobs(look, before.as_ref()).len()
                + self.pairs(look, before.as_ref()).len().max(1)
                + self.notes(look).len()
        });
        let size = TestBackend::new(width.max(40), lines.min(1000) as u16);
        let Ok(mut terminal) = ratatui::Terminal::new(size);
        let Ok(drawn) = terminal.draw(|frame| self.draw(frame));
        text(drawn.buffer)
    }
}

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

fn over(transport: &str) -> &str {
    if transport.is_empty() { "none" } else { transport }
}

fn percent(part: Option<f64>) -> String {
    part.map_or("-".into(), |part| format!("{:.0} %", 100.0 * part))
}

/// The cells of these columns.
fn row(mut cells: Vec<String>, shown: &[(usize, Constraint)]) -> Row<'static> {
    Row::new(shown.iter().map(|(at, _)| std::mem::take(&mut cells[*at])).collect::<Vec<_>>())
}

fn table(
    columns: &Columns<'_>,
    shown: &[(usize, Constraint)],
    rows: impl Iterator<Item = Row<'static>>,
) -> Table<'static> {
    let heads = columns.heads.iter().map(|head| (*head).to_owned()).collect();
    let widths = shown.iter().map(|(_, width)| *width).collect::<Vec<_>>();
    Table::new(rows, widths).header(row(heads, shown).style(BOLD))
}

/// Names of peers, shortened for a table of this width.
fn short(all: &[String], width: usize) -> Vec<String> {
    peers(all, (width / 4).max(20), width.saturating_sub(12))
}

fn jobs_table(mut rows: Vec<Vec<String>>, width: usize) -> Table<'static> {
    let columns = Columns {
        heads: &["JOINED WITH", "PAIRS OVER", "SENT", "RECEIVED", "WAITS HERE", "WAITS THERE"],
        least: &[0; 6],
        order: &[&[0], &[2, 3], &[4, 5], &[1]],
        last: None,
    };
    // A name without a rank behind it.
    let names: Vec<String> = rows.iter().map(|row| format!("{} ", row[0])).collect();
    rows.iter_mut().zip(short(&names, width)).for_each(|(row, name)| row[0] = name.trim_end().into());
    let shown = columns.fit(&rows, width);
    table(&columns, &shown, rows.into_iter().map(|cells| row(cells, &shown)))
}

/// The pairs from this one on.
fn pairs_table(rows: Vec<(Style, Vec<String>)>, from: usize, width: usize) -> Table<'static> {
    let columns = Columns {
        heads: &["RANK", "PEER", "OVER", "SENT", "RECEIVED", "UNEXP", "POSTED", "TRIP", "WAITED", "WHY"],
        least: &[4, 4, 5, 15, 15, 5, 6, 6, 6, 10],
        order: &[&[0, 1, 2], &[3, 4], &[8], &[9], &[7], &[5, 6]],
        last: Some(9),
    };
    let (styles, mut cells): (Vec<Style>, Vec<Vec<String>>) = rows.into_iter().unzip();
    let all: Vec<String> = cells.iter().map(|row| row[1].clone()).collect();
    cells.iter_mut().zip(short(&all, width)).for_each(|(row, peer)| row[1] = peer);
    let shown = columns.fit(&cells, width);
    let rows = cells.into_iter().zip(styles).skip(from).map(|(cells, style)| row(cells, &shown).style(style));
    table(&columns, &shown, rows)
}

/// What a buffer shows, without blanks at the ends of lines.
fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let mut out = String::new();
    for line in buffer.content.chunks(width) {
        let line: String = line.iter().map(|cell| cell.symbol()).collect();
        out += line.trim_end();
        out.push('\n');
    }
    format!("{}\n", out.trim_end())
}

#[cfg(test)]
mod tests {
    use super::super::client::Got;
    use super::super::figures::tests::sample;
    use super::*;
    use ratatui::crossterm::event::KeyEvent;
    use wire::control::What;

    fn look(seconds: u64) -> Look {
        let mut there = sample(seconds);
        there.job = "ocean".into();
        Look { job: sample(seconds), others: BTreeMap::from([("ocean".into(), there)]), silent: BTreeMap::new(), at: 0 }
    }

    #[test]
    fn the_screen_shows_jobs_pairs_and_who_waits() {
        let mut screen = Screen::new("air", 2.0);
        assert_eq!(screen.text(80), "waiting for the job to answer\n");
        screen.come(News::Look(Ok(look(10))));
        screen.come(News::Look(Ok(look(12))));
        let text = screen.text(132);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(
            lines[0].starts_with(&["air", "3", "ranks", "on", "1", "host,", "1", "of", "them", "answers"]),
            "{text}"
        );
        let ocean =
            ["ocean", "1", "shm,", "1", "tcp", "2.0k/s", "2.0", "MiB/s", "20/s", "160", "B/s", "50", "%", "50", "%"];
        assert_eq!(lines[3], ocean, "{text}");
        let pair =
            ["0", "ocean", "1", "tcp", "1.0k/s", "1.0", "MiB/s", "10/s", "80", "B/s", "1", "1", "90", "µs", "25", "%"];
        assert!(lines.iter().any(|line| line.starts_with(&pair) && line.ends_with(&["other", "host"])), "{text}");
        assert!(
            text.contains("air: rank 0 waits in MPI_Recv for 3.2 s: for a message from rank 1 of 'ocean'"),
            "{text}"
        );
        assert!(text.contains("ocean: rank 0 waits") && text.contains("rank 1 of 'air': not answering"), "{text}");
    }

    #[test]
    fn what_there_is_of_a_job_without_pairs_is_shown_and_long_names_are_shortened() {
        let mut screen = Screen::new("air", 2.0);
        let mut alone = look(10);
        let waits: usize = alone.job.reports().map(|(_, report)| report.waits.len()).sum();
        assert!(waits > 0);
        alone.others.clear();
        for outcome in &mut alone.job.outcomes {
            if let What::Report(report) = &mut outcome.what {
                report.pairs.clear();
            }
        }
        screen.come(News::Look(Ok(alone)));
        let text = screen.text(120);
        assert_eq!(text.matches("air: rank").count(), waits, "{text}");
        let rows = vec![[&"n".repeat(255), "1 shm", "1/s", "2/s", "3 %", "4 %"].map(String::from).to_vec()];
        let mut terminal = ratatui::Terminal::new(TestBackend::new(120, 2)).unwrap();
        let drawn = terminal.draw(|frame| frame.render_widget(jobs_table(rows, 120), frame.area())).unwrap();
        let text = super::text(drawn.buffer);
        assert!(text.contains('…') && text.contains("4 %"), "{text}");
    }

    #[test]
    fn receives_from_anyone_are_told_apart() {
        let mut look = look(10);
        if let What::Report(report) = &mut look.job.outcomes[0].what {
            (report.pairs[0].posted, report.pairs[0].from_any) = (2, 3);
            (report.pairs[1].posted, report.pairs[1].from_any) = (0, 1);
        }
        let (mut screen, in_lanes) = (Screen::new("air", 2.0), super::super::lanes::table(&look.job, None));
        screen.come(News::Look(Ok(look)));
        for text in [screen.text(132), in_lanes] {
            let cells: Vec<_> = text.split_whitespace().collect();
            assert!(["2+3", "0+1"].iter().all(|posted| cells.contains(posted)), "{text}");
        }
    }

    /// The normal terminal, and half of one: what tells peers apart stays, and no figure is cut.
    #[test]
    fn on_a_narrow_screen_less_important_columns_go() {
        let mut screen = Screen::new("air", 1.0);
        screen.come(News::Look(Ok(look(10))));
        screen.come(News::Look(Ok(look(12))));
        let heads = |width| -> Vec<String> {
            let text = screen.text(width);
            let of = |first: &str| text.lines().find(|line| line.trim_start().starts_with(first)).map(str::to_owned);
            [of("JOINED"), of("RANK")].into_iter().flatten().collect()
        };
        assert!(heads(132)[1].contains("UNEXP POSTED"), "{:?}", heads(132));
        let text = screen.text(80);
        assert!(text.contains("ocean 0") && text.contains("ocean 1"), "{text}");
        assert!(text.contains("1.0k/s 1.0 MiB/s") && text.contains("10/s 80 B/s"), "{text}");
        assert!(text.contains("2.0k/s 2.0 MiB/s") && text.contains("q: quit"), "{text}");
        let shown = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            shown(&heads(80)[1]),
            ["RANK", "PEER", "OVER", "SENT", "RECEIVED", "TRIP", "WAITED", "WHY"],
            "{text}"
        );
        let text = screen.text(40);
        assert!(text.contains("ocean 0") && text.contains("ocean 1"), "{text}");
        assert_eq!(shown(&heads(40)[1]), ["RANK", "PEER", "OVER", "WAITED", "WHY"], "{text}");
    }

    #[test]
    fn a_job_that_does_not_answer_any_more_is_told_beside_what_was_seen() {
        let mut screen = Screen::new("air", 1.0);
        screen.come(News::Look(Ok(look(10))));
        screen.come(News::Look(Err(CtlError::NoSuchJob("air".into()))));
        let text = screen.text(132);
        assert!(text.contains("'air' has just ended") && text.contains("ocean 1"), "{text}");
    }

    #[test]
    fn who_does_not_answer_is_told_while_waited_for() {
        let silence = || CtlError::NotAnswering("air".into(), Got::Look, 600.0);
        let mut screen = Screen::new("air", 1.0);
        screen.come(News::Look(Ok(look(10))));
        screen.come(News::Asks);
        assert!(!screen.text(132).contains("not answered"), "it has just been asked");
        screen.asked = screen.asked.and_then(|since| since.checked_sub(LATE));
        let late = "the leader of 'air' has not answered for 3 s: it may be stopped";
        assert!(screen.text(132).contains(late), "{}", screen.text(132));
        // It is asked again, and its time counts from the first question.
        screen.come(News::Look(Err(silence())));
        screen.come(News::Asks);
        assert!(screen.text(132).contains(late), "{}", screen.text(132));
        screen.come(News::Answered);
        let mut look = look(12);
        look.others.clear();
        look.silent.insert("ocean".into(), 2.0);
        screen.come(News::Look(Ok(look)));
        let text = screen.text(132);
        assert!(!text.contains(late) && text.contains("no answer"), "{text}");
        assert!(text.contains("the leader of 'ocean' has not answered for 2 s"), "{text}");
    }

    #[test]
    fn the_lowest_screen_says_what_is_wrong() {
        let mut screen = Screen::new("air", 1.0);
        screen.come(News::Look(Ok(look(10))));
        screen.come(News::Look(Err(CtlError::Over("air".into()))));
        let mut terminal = ratatui::Terminal::new(TestBackend::new(60, 5)).expect("a buffer");
        let drawn = terminal.draw(|frame| screen.draw(frame)).expect("a buffer");
        assert!(text(drawn.buffer).contains("'air' has ended"));
    }

    #[test]
    fn no_byte_of_others_reaches_the_terminal() {
        let mut screen = Screen::new("air", 1.0);
        let mut bad = look(10);
        if let What::Report(report) = &mut bad.job.outcomes[0].what {
            report.jobs[0].name = "o\u{1b}[2Jcean\n".into();
            report.pairs[0].why = "\u{7}".into();
        }
        screen.come(News::Look(Ok(bad)));
        assert!(screen.text(132).chars().all(|c| !c.is_control() || c == '\n'));
    }

    #[test]
    fn keys_scroll_and_end() {
        let mut screen = Screen::new("air", 1.0);
        let press = |code| Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
        assert!(!screen.key(&press(KeyCode::Down)) && screen.from.get() == 1);
        assert!(!screen.key(&press(KeyCode::PageUp)) && screen.from.get() == 0);
        assert!(screen.key(&press(KeyCode::Char('q'))));
        screen.come(News::Look(Ok(look(10))));
        screen.from.set(1000);
        let text = screen.text(100);
        assert!(text.contains("ocean 0") && text.contains("ocean 1"), "there is room for both: {text}");
        assert_eq!(screen.from.get(), 0);
    }
}
