//! An etcd with TLS, certificates of clients, and users.

use crate::kit::{Cluster, Process, claim, is_there, open, post, wait_until};
use data_encoding::BASE64;
use naming::Fate;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const SECURED: [&str; 7] = [
    "--cert-file",
    "FOLDER/server.pem",
    "--key-file",
    "FOLDER/server.key",
    "--client-cert-auth",
    "--trusted-ca-file",
    "FOLDER/ca.pem",
];

fn openssl(folder: &Path, words: &str) {
    let done = Command::new("openssl").current_dir(folder).args(words.split(' ')).output().unwrap();
    assert!(done.status.success(), "{words}: {}", String::from_utf8_lossy(&done.stderr));
}

/// An authority, and what it has signed: for the node, and for a client.
fn certificates(folder: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(folder, &format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"));
    // The node asks itself as a client would.
    let text = "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n";
    std::fs::write(folder.join("more"), text).unwrap();
    // A node's gateway refuses clients whose certificate has a common name, since it would not go by that name.
    for (who, subject) in [("server", "/CN=server"), ("client", "/O=client"), ("named", "/CN=client")] {
        openssl(folder, &format!("req {key} -keyout {who}.key -out {who}.csr -subj {subject}"));
        let signed = format!(
            "x509 -req -in {who}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile more -out {who}.pem"
        );
        openssl(folder, &signed);
    }
}

/// The users root, names (who may use our rows) and other (who may not).
fn users(place: &str) {
    let (key, end) = (BASE64.encode(b"mpi-connect/names/1/"), BASE64.encode(b"mpi-connect/names/10"));
    for user in ["root", "names", "other"] {
        post(place, "/v3/auth/user/add", &format!(r#"{{"name":"{user}","password":"secret of {user}"}}"#));
        post(place, "/v3/auth/role/add", &format!(r#"{{"name":"{user}"}}"#));
        post(place, "/v3/auth/user/grant", &format!(r#"{{"user":"{user}","role":"{user}"}}"#));
    }
    let may = format!(r#"{{"name":"names","perm":{{"permType":"READWRITE","key":"{key}","range_end":"{end}"}}}}"#);
    post(place, "/v3/auth/role/grant", &may);
    post(place, "/v3/auth/enable", "{}");
}

#[test]
fn a_user_over_tls() {
    let Some(plain) = Cluster::start(1) else { return };
    let mut plain = plain.run();
    users(&plain.nodes[0].place);
    certificates(plain.folder());
    plain.nodes[0].kill();
    let folder = plain.folder().display().to_string();
    plain.nodes[0].secure(&SECURED.map(|word| word.replace("FOLDER", &folder)));
    let cluster = plain.run();
    let url = cluster.url().replace("etcd://127.0.0.1", "etcds://localhost");
    let name = |user: &str| {
        let file = cluster.folder().join("user");
        std::fs::write(&file, user).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    let start = |role, url: &str| Process::start(role, &["127.0.0.1:0", "2000", url, &folder]);
    let refused = |user: &str, said: &str| {
        name(user);
        let why = start("tls", &url).hear();
        assert!(why.starts_with("error: ") && why.contains(said) && !why.contains("secret"), "{why}");
    };
    refused("names\nsecret of other\n", "authentication failed");
    refused("other\nsecret of other\n", "permission denied");
    name("names\nsecret of names\n");
    let server = start("tls", &url);
    let ours = server.hear();
    let held = claim(&ours, "ocean");
    assert!(is_there(&ours, "ocean"));
    let mut watching = open(&ours);
    let mut watch = watching.watch();
    drop(held);
    wait_until("the release", || {
        watch.next(std::time::Duration::from_millis(10)).iter().any(|c| c.fate != Fate::Claimed)
    });
    drop(watch);
    watching = open(&ours);
    assert!(watching.list().unwrap().is_empty());
    let why = start("named", &url).hear();
    assert!(why.contains("CommonName"), "{why}");
    // Whoever is not known to the authority, or does not ask it, gets nowhere.
    let without = start("server", &url.replace("etcds", "etcd"));
    assert!(without.hear().starts_with("error: "));
    let stranger = start("untrusting", &url);
    let why = stranger.hear();
    println!("{why}");
    assert!(why.starts_with("error: ") && why.contains("certificate"), "{why}");
    // The node forgets its tokens when it is started again.
    drop(server);
    let mut cluster = cluster;
    let server = start("tls", &url);
    let ours = server.hear();
    cluster.nodes[0].kill();
    cluster.nodes[0].start();
    wait_until("the node again", || open(&ours).lookup(naming::Kind::Job, "ocean").is_ok());
    drop(claim(&ours, "ocean"));
}
