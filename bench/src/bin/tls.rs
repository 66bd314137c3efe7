//! What TLS gives over the same sockets: the ping-pong of `bench/c/bench.h` over rustls, two processes, loopback, polling.
//!   tls SAMPLES SLICE_MS LARGEST
//! Its cipher and its library of cryptography are the ones that the library uses, so that what differs is what is done
//! around them.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, Connection, DigitallySignedStruct, ServerConfig, ServerConnection};
use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

const SIZES: [usize; 14] =
    [0, 1, 8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];

/// The word that makes a process the other side; the port follows.
const OTHER_SIDE: &str = "dials";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [samples, slice, most, OTHER_SIDE, port] => {
            pin(1)?;
            let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port.parse()?))?;
            let tls = ClientConnection::new(Arc::new(client()?), ServerName::try_from("bench")?)?;
            Side::new(socket, tls.into(), (samples, slice, most))?.all(false)
        }
        [samples, slice, most] => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port().to_string();
            let mut other =
                Command::new(std::env::current_exe()?).args([samples, slice, most, OTHER_SIDE, &port]).spawn()?;
            pin(0)?;
            let (socket, _) = listener.accept()?;
            let tls = ServerConnection::new(Arc::new(server()?))?;
            Side::new(socket, tls.into(), (samples, slice, most))?.all(true)?;
            if other.wait()?.success() { Ok(()) } else { Err("the other side failed".into()) }
        }
        _ => Err("arguments: SAMPLES SLICE_MS LARGEST".into()),
    }
}

/// On the side's core, as every contestant.
fn pin(side: usize) -> nix::Result<()> {
    let all = sched_getaffinity(Pid::from_raw(0))?;
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(|cpu| all.is_set(*cpu) == Ok(true)).collect();
    let mut one = CpuSet::new();
    one.set(cpus[side % cpus.len()])?;
    sched_setaffinity(Pid::from_raw(0), &one)
}

fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|suite| *suite == aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384);
    Arc::new(provider)
}

fn server() -> Result<ServerConfig> {
    // A certificate for this run. Both of its parts come on one stream.
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=bench -days 2 \
                 -keyout /dev/stdout -out /dev/stdout";
    let made = Command::new("openssl").args(words.split_whitespace()).output()?;
    if !made.status.success() {
        return Err(format!("openssl: {}", String::from_utf8_lossy(&made.stderr)).into());
    }
    let (certificate, key) =
        (CertificateDer::from_pem_slice(&made.stdout)?, PrivateKeyDer::from_pem_slice(&made.stdout)?);
    let config = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&rustls::version::TLS13])?;
    Ok(config.with_no_client_auth().with_single_cert(vec![certificate], key)?)
}

fn client() -> Result<ClientConfig> {
    let config = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&rustls::version::TLS13])?;
    Ok(config.dangerous().with_custom_certificate_verifier(Arc::new(Anybody)).with_no_client_auth())
}

/// The other side is this program; what is measured comes after the handshake.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

struct Side {
    socket: TcpStream,
    tls: Connection,
    samples: usize,
    slice: f64,
    most: usize,
}

impl Side {
    fn new(socket: TcpStream, tls: Connection, (samples, slice, most): (&str, &str, &str)) -> Result<Side> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let slice = slice.parse::<f64>()? * 1e-3;
        let mut side = Side { socket, tls, samples: samples.parse()?, slice, most: most.parse()? };
        while side.tls.is_handshaking() || side.tls.wants_write() {
            side.send_records()?;
            if side.tls.is_handshaking() {
                side.receive_records()?;
            }
        }
        Ok(side)
    }

    /// Whatever the socket takes now.
    fn send_records(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Whatever the socket has now.
    fn receive_records(&mut self) -> io::Result<()> {
        match self.tls.read_tls(&mut self.socket) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => self.tls.process_new_packets().map(drop).map_err(io::Error::other),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn send(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() || self.tls.wants_write() {
            let taken = self.tls.writer().write(data)?;
            data = &data[taken..];
            self.send_records()?;
        }
        Ok(())
    }

    fn receive(&mut self, mut data: &mut [u8]) -> io::Result<()> {
        while !data.is_empty() {
            match self.tls.reader().read(data) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => data = &mut data[n..],
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.receive_records()?,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn rounds(&mut self, n: u64, first: bool, buffers: &mut [Vec<u8>; 2]) -> io::Result<()> {
        let [out, back] = buffers;
        for _ in 0..n {
            if first {
                self.send(out)?;
                self.receive(back)?;
            } else {
                self.receive(back)?;
                self.send(out)?;
            }
        }
        Ok(())
    }

    fn all(&mut self, first: bool) -> Result<()> {
        let mut lines = Vec::new();
        let most = self.most;
        for size in SIZES.into_iter().filter(|size| *size <= most) {
            // A message of nothing is a byte: something has to come.
            let bytes = size.max(1);
            let mut buffers = [(0..bytes).map(|i| (i * 7 + (i >> 12)) as u8).collect(), vec![1; bytes]];
            let values = self.measure(first, &mut buffers)?;
            if buffers[0] != buffers[1] {
                return Err("wrong data".into());
            }
            if first {
                let values: Vec<String> = values.iter().map(|v| format!("{v:.9}")).collect();
                let values = values.join(",");
                lines.push(format!(r#"BENCH {{"row":"pingpong","size":{size},"unit":"us","samples":[{values}]}}"#));
            }
        }
        lines.iter().for_each(|line| println!("{line}"));
        Ok(())
    }

    /// As `measure` of `bench/c/bench.h`: the first side finds out how many rounds fill a slice, and tells the other.
    fn measure(&mut self, first: bool, buffers: &mut [Vec<u8>; 2]) -> io::Result<Vec<f64>> {
        let mut word = [0; 8];
        if !first {
            loop {
                self.receive(&mut word)?;
                match u64::from_le_bytes(word) {
                    0 => return Ok(Vec::new()),
                    rounds => self.rounds(rounds, false, buffers)?,
                }
            }
        }
        let (mut rounds, mut tries, mut quickest) = (1_u64, 0, f64::MAX);
        let (mut warm, mut wanted, mut values) = (true, self.samples, Vec::new());
        while values.len() < wanted {
            self.send(&rounds.to_le_bytes())?;
            let start = Instant::now();
            self.rounds(rounds, true, buffers)?;
            let took = start.elapsed().as_secs_f64();
            if !warm {
                values.push(0.5e6 * took / rounds as f64);
                continue;
            }
            quickest = took.min(quickest);
            if quickest < self.slice * 0.7 {
                rounds = (rounds as f64 * (self.slice / quickest.max(1e-7)).min(8.0)) as u64 + 1;
                (tries, quickest) = (0, f64::MAX);
                continue;
            }
            tries += 1;
            if tries == 3 || quickest > self.slice * 5.0 {
                warm = false;
                if quickest > self.slice * 20.0 {
                    wanted = wanted.min(3);
                }
            }
        }
        self.send(&0_u64.to_le_bytes())?;
        Ok(values)
    }
}
