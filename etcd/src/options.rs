//! Where an etcd is, and who we are there. The command fills this in.
//!
//! Invariant: a password is read only from a file that nobody else can read, and goes only over TLS or to this host.

use crate::error::OpenError;
use crate::http::Nodes;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

/// The port of a node that names none.
const PORT: u16 = 2379;

/// Where an etcd is, and who we are there.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `etcd://HOST:PORT,…`, or `etcds://…` for TLS.
    pub url: String,
    /// The certificates of whom the nodes' are, in PEM. Without it, those of public authorities that are built in.
    pub ca: Option<PathBuf>,
    /// Our certificate in PEM, with its chain, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// A file with a user's name on its first line and the password on its second.
    pub user: Option<PathBuf>,
}

impl Options {
    /// Whether this is a URL of an etcd.
    pub fn is_url(text: &str) -> bool {
        text.starts_with("etcd:") || text.starts_with("etcds:")
    }

    pub(crate) fn nodes(&self) -> Result<Nodes, OpenError> {
        let bad = |why| OpenError::Url(self.url.clone(), why);
        let (scheme, rest) = match self.url.split_once("://") {
            Some(("etcd", rest)) => ("http", rest),
            Some(("etcds", rest)) => ("https", rest),
            _ => return Err(bad("it begins otherwise")),
        };
        let is_plain = scheme == "http";
        let nodes: Vec<&str> = rest.trim_end_matches('/').split(',').map(str::trim).collect();
        let urls = nodes.iter().map(|node| place(node).map(|node| format!("{scheme}://{node}")));
        let urls: Vec<String> = urls.collect::<Option<_>>().ok_or_else(|| bad("a node of it is no HOST:PORT"))?;
        if is_plain && (self.ca.is_some() || self.certificate.is_some()) {
            return Err(OpenError::Plain("a certificate"));
        }
        let is_here = |node: &&str| ["127.", "localhost", "[::1]"].iter().any(|host| node.starts_with(host));
        if is_plain && self.user.is_some() && !nodes.iter().all(is_here) {
            return Err(OpenError::Plain("a password, which is not sent in the clear,"));
        }
        let mut tls = TlsConfig::builder();
        if let Some(path) = &self.ca {
            let pem = read(path)?;
            let mut all = Vec::new();
            for item in ureq::tls::parse_pem(&pem) {
                if let Ok(ureq::tls::PemItem::Certificate(one)) = item {
                    all.push(one);
                }
            }
            if all.is_empty() {
                return Err(OpenError::Pem(path.clone(), "certificate"));
            }
            tls = tls.root_certs(RootCerts::new_with_certs(&all));
        }
        if let Some((chain, key)) = &self.certificate {
            let pem = read(chain)?;
            let all: Vec<Certificate<'static>> = ureq::tls::parse_pem(&pem)
                .filter_map(|item| match item {
                    Ok(ureq::tls::PemItem::Certificate(one)) => Some(one),
                    _ => None,
                })
                .collect();
            if all.is_empty() {
                return Err(OpenError::Pem(chain.clone(), "certificate"));
            }
            let secret = PrivateKey::from_pem(&read(key)?).map_err(|_| OpenError::Pem(key.clone(), "key"))?;
            tls = tls.client_cert(Some(ClientCert::new_with_certs(&all, secret)));
        }
        let agent: Agent = Agent::config_builder()
            .http_status_as_error(false)
            // What is asked stays between us and the nodes, whatever the environment says.
            .proxy(None)
            .tls_config(tls.build())
            .build()
            .into();
        let user = self.user.as_deref().map(user).transpose()?;
        Ok(Nodes::new(urls, agent, user))
    }
}

/// `HOST:PORT` of a node.
fn place(node: &str) -> Option<String> {
    let (host, port) = match node.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !port.ends_with(']') => {
            (host, port.parse().ok().filter(|p| *p != 0)?)
        }
        Some(("", _)) => return None,
        _ => (node, PORT),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_address = bare.is_some_and(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok());
    let is_name = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    (is_address || is_name).then(|| format!("{host}:{port}"))
}

fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
    fs::read(path).map_err(|e| OpenError::File(path.into(), e))
}

fn user(path: &Path) -> Result<(String, String), OpenError> {
    let mode = fs::metadata(path).map_err(|e| OpenError::File(path.into(), e))?.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(OpenError::User(path.into(), Some(mode)));
    }
    let text = String::from_utf8(read(path)?).map_err(|_| OpenError::User(path.into(), None))?;
    let mut lines = text.lines();
    match (lines.next(), lines.next()) {
        (Some(name), Some(password)) if !name.is_empty() && !password.is_empty() => Ok((name.into(), password.into())),
        _ => Err(OpenError::User(path.into(), None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_nodes() {
        for (text, node) in [("a", "a:2379"), ("a.b-c:1", "a.b-c:1"), ("[::1]", "[::1]:2379"), ("[::1]:7", "[::1]:7")] {
            assert_eq!(place(text).as_deref(), Some(node));
        }
        for text in ["", ":1", "a:", "a:0", "a:65536", "::1", "a b", "a/b", "a@b:1", "[a]:1"] {
            assert_eq!(place(text), None, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_reason() {
        let open = |options: Options| options.nodes().map(|_| ()).unwrap_or_else(|e| panic!("{e}"));
        open(Options { url: "etcd://a,b:1,[::1]:2".into(), ..Options::default() });
        open(Options { url: "etcds://a".into(), ..Options::default() });
        let refused = |options: Options, said: &str| {
            let why = options.nodes().map(|_| ()).unwrap_err().to_string();
            assert!(why.contains(said), "{why}");
        };
        for url in ["etcd:a", "etcd://", "etcd://a,,b", "http://a"] {
            refused(Options { url: url.into(), ..Options::default() }, "etcd://HOST:PORT");
        }
        let ca = Some(PathBuf::from("/dev/null"));
        refused(Options { url: "etcd://a".into(), ca: ca.clone(), ..Options::default() }, "etcds://");
        refused(Options { url: "etcds://a".into(), ca, ..Options::default() }, "no certificate");
        let user = Some(PathBuf::from("/nowhere/at/all"));
        refused(Options { url: "etcd://a".into(), user: user.clone(), ..Options::default() }, "in the clear");
        refused(Options { url: "etcds://a".into(), user, ..Options::default() }, "/nowhere/at/all");
    }
}
