//! `mpi-connect pages`: the manual pages and the shells' completions, for `make` and packagers.
//!
//! Invariant: nothing in them is written twice: they come from the command line's own description, the table of
//! settings and the headers.

use crate::output;
use base::settings;
use clap::Command;
use clap_complete::{Generator, Shell};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use std::path::{Path, PathBuf};
use std::{fs, io};

const HEADER: &str = include_str!("../include/mpi_connect.h");
const FORTRAN: &str = include_str!("../include/mpi_connect.f90");

/// What stands at the foot of each page.
const SOURCE: &str = concat!("mpi-connect ", env!("CARGO_PKG_VERSION"));

#[derive(clap::Args)]
pub struct Args {
    /// The folder for them, usually called share
    pub dir: PathBuf,
}

/// Writes them all, and says what.
pub fn pages(args: &Args, command: Command) -> io::Result<()> {
    for (place, content) in all(command)? {
        let path = args.dir.join(&place);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        fs::write(path, content)?;
        output::write(&format!("{place}\n"));
    }
    Ok(())
}

/// Every file, by its place below share.
fn all(command: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut files = vec![("man/man1/mpi-connect.1".into(), page(&command, true)?)];
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        files.push((format!("man/man1/mpi-connect-{}.1", sub.get_name()), page(sub, false)?));
    }
    for call in calls(HEADER) {
        files.push((format!("man/man3/{}.3", call.name), call.page()?));
    }
    for (shell, folder) in [
        (Shell::Bash, "bash-completion/completions"),
        (Shell::Zsh, "zsh/site-functions"),
        (Shell::Fish, "fish/vendor_completions.d"),
    ] {
        let file = match shell {
            Shell::Bash => "mpi-connect".into(),
            _ => shell.file_name("mpi-connect"),
        };
        let mut content = Vec::new();
        clap_complete::generate(shell, &mut visible(&command), "mpi-connect", &mut content);
        if shell == Shell::Bash {
            // The generator spells a hyphen in the command's own name in two ways, and finds no subcommand then.
            content = String::from_utf8_lossy(&content).replace("mpi__subcmd__connect", "mpi__connect").into_bytes();
        }
        files.push((format!("{folder}/{file}"), content));
    }
    Ok(files)
}

/// The command without what is not for users.
fn visible(command: &Command) -> Command {
    let subs = command.get_subcommands().filter(|s| !s.is_hide_set()).cloned();
    let mut bare = Command::new("mpi-connect").disable_help_subcommand(true);
    for argument in command.get_arguments().filter(|a| !["help", "version"].contains(&a.get_id().as_str())) {
        bare = bare.arg(argument.clone());
    }
    if let Some(about) = command.get_about() {
        bare = bare.about(about.clone());
    }
    bare.version(env!("CARGO_PKG_VERSION")).subcommands(subs)
}

fn page(command: &Command, is_first: bool) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).source(SOURCE).manual("MPI_Connect");
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if is_first {
        man.render_subcommands_section(&mut out)?;
    }
    let mut roff = Roff::new();
    if let Some(text) = command.get_after_help().map(ToString::to_string) {
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in text.lines().skip(1) {
            roff.text([roman(line.trim_start())]);
        }
        roff.control("fi", []);
    }
    if is_first {
        roff.control("SH", ["ENVIRONMENT"]);
        for s in settings::ALL {
            roff.control("TP", []).text([bold(s.name)]);
            roff.text([roman(format!("{} (default: {})", s.meaning, s.default))]);
        }
    }
    roff.to_writer(&mut out)?;
    Ok(out)
}

/// A call of the library, as the header has it.
struct Call<'a> {
    name: &'a str,
    prototype: &'a str,
    text: &'a str,
}

/// Every prototype with the comment above it.
fn calls(header: &str) -> Vec<Call<'_>> {
    let mut calls = Vec::new();
    for (start, _) in header.match_indices("\nint MPI_Conn_") {
        let prototype = header[start + 1..].split_inclusive(';').next().unwrap_or_default();
        let name = prototype[4..].split('(').next().unwrap_or_default();
        let text = header[..start].rsplit("/*").next().and_then(|t| t.split("*/").next()).unwrap_or_default().trim();
        calls.push(Call { name, prototype, text });
    }
    calls
}

/// What a fence of backticks encloses.
fn picture(paragraph: &str) -> Option<&str> {
    paragraph.trim().strip_prefix("```text\n")?.strip_suffix("```")
}

impl Call<'_> {
    /// The call as Fortran has it.
    fn fortran(&self) -> String {
        let begin = format!("subroutine {}(", self.name.to_lowercase());
        let arguments = FORTRAN.split_once(&begin).and_then(|(_, rest)| rest.lines().next()).unwrap_or_default();
        format!("call {}({arguments}", self.name.to_lowercase())
    }

    fn page(&self) -> io::Result<Vec<u8>> {
        let mut roff = Roff::new();
        roff.control("TH", [self.name, "3", "", SOURCE, "MPI_Connect"]);
        let (first, rest) = self.text.split_once(". ").unwrap_or((self.text, ""));
        let (summary, rest) = match first.split_once(".\n") {
            Some((summary, more)) => (summary, format!("{more}{}{rest}", if rest.is_empty() { "" } else { ". " })),
            None => (first, rest.to_owned()),
        };
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        roff.control("SH", ["NAME"]);
        roff.text([roman(format!("{} - {}", self.name, one_line(summary)))]);
        roff.control("SH", ["SYNOPSIS"]).control("nf", []);
        roff.text([bold("#include <mpi.h>")]).text([bold("#include <mpi_connect.h>")]).text([roman("")]);
        for line in self.prototype.lines() {
            roff.text([bold(line)]);
        }
        roff.text([roman("")]).text([bold(self.fortran())]);
        roff.control("fi", []).control("SH", ["DESCRIPTION"]);
        for paragraph in rest.split("\n\n").filter(|p| !p.trim().is_empty()) {
            roff.control("PP", []);
            if let Some(picture) = picture(paragraph) {
                roff.control("nf", []);
                picture.lines().for_each(|line| _ = roff.text([roman(line)]));
                roff.control("fi", []);
                continue;
            }
            let paragraph = one_line(paragraph);
            // Every second piece stands between backticks.
            let pieces = paragraph.split('`').enumerate();
            let pieces = pieces.map(|(i, piece)| if i % 2 == 1 { italic(piece) } else { roman(piece) });
            roff.text(pieces.collect::<Vec<_>>());
        }
        roff.control("SH", ["RETURN VALUE"]);
        roff.text([roman("MPI_SUCCESS, or an MPI error code, where the error handler of the communicator returns.")]);
        roff.control("SH", ["SEE ALSO"]).text([bold("mpi-connect"), roman("(1)")]);
        let mut out = Vec::new();
        roff.to_writer(&mut out)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// What bash offers for the last of these words.
    fn completed(script: &str, words: &[&str]) -> String {
        let last = words.len() - 1;
        let quoted: Vec<_> = words.iter().map(|w| format!("'{w}'")).collect();
        let ask = format!(
            "{script}\nCOMP_WORDS=({}); COMP_CWORD={last}; _mpi__connect mpi-connect '{}' '{}'; echo \"${{COMPREPLY[*]}}\"",
            quoted.join(" "),
            words[last],
            words[last - 1]
        );
        let done = std::process::Command::new("bash").args(["-c", &ask]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn bash_completes_commands_and_their_options() {
        let files = all(crate::Command::command()).unwrap();
        let script = files.iter().find(|(place, _)| place.ends_with("completions/mpi-connect")).unwrap();
        let script = String::from_utf8(script.1.clone()).unwrap();
        assert_eq!(completed(&script, &["mpi-connect", "ser"]), "serve");
        assert_eq!(completed(&script, &["mpi-connect", "names", "--wa"]), "--watch");
        assert_eq!(completed(&script, &["mpi-connect", "run", "--nam"]), "--naming");
    }

    #[test]
    fn each_subcommand_and_each_call_has_a_page() {
        let files = all(crate::Command::command()).unwrap();
        let text = |place: &str| {
            let file = files.iter().find(|(p, _)| p == place).unwrap_or_else(|| panic!("no {place}"));
            String::from_utf8(file.1.clone()).unwrap()
        };
        assert!(text("man/man1/mpi-connect.1").contains("MPI_CONNECT_TIMEOUT"));
        assert!(text("man/man1/mpi-connect-run.1").contains("mpirun"));
        assert!(!files.iter().any(|(place, _)| place.contains("pages")), "it is for packagers");
        let register = text("man/man3/MPI_Conn_register.3");
        assert!(register.contains("MPI_ERR_NAME when a live job holds the name"), "{register}");
        assert!(register.contains("call mpi_conn_register(name, local_comm, handle, ierror)"), "{register}");
        assert_eq!(
            files.iter().filter(|(place, _)| place.ends_with(".3")).count(),
            HEADER.matches("\nint MPI_Conn_").count()
        );
        for place in [
            "bash-completion/completions/mpi-connect",
            "zsh/site-functions/_mpi-connect",
            "fish/vendor_completions.d/mpi-connect.fish",
        ] {
            assert!(text(place).contains("doctor") && !text(place).contains("pages"), "{place}");
        }
    }

    /// The manual page and docs/checkpoints.md show the same picture.
    #[test]
    fn a_picture_stays_as_it_is_drawn() {
        let calls = calls(HEADER);
        let call = calls.iter().find(|call| call.name == "MPI_Conn_checkpoint").unwrap();
        let picture = call.text.split("\n\n").find_map(picture).unwrap();
        let docs = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/checkpoints.md")).unwrap();
        let page = String::from_utf8(call.page().unwrap()).unwrap().replace("\\-", "-").replace("\\\\", "\\");
        for line in picture.lines() {
            let line = line.strip_prefix(' ').unwrap_or(line);
            assert!(docs.lines().any(|of_docs| of_docs == line), "{line:?} is not in docs/checkpoints.md");
            assert!(page.contains(line), "{line:?} is not in the page:\n{page}");
        }
    }

    /// The one list of what is installed is the Makefile's.
    #[test]
    fn the_makefile_installs_each() {
        let makefile = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Makefile")).unwrap();
        let list = makefile.split_once("\nPAGES := ").and_then(|(_, rest)| rest.split_once("\n\n")).unwrap().0;
        let listed: Vec<&str> = list.split_whitespace().filter(|w| *w != "\\").collect();
        let mut written: Vec<String> = all(crate::Command::command()).unwrap().into_iter().map(|(p, _)| p).collect();
        written.sort();
        assert_eq!(listed, written);
    }
}
