//! The keys of MPI_Info objects for ports and published names.

use crate::abi;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use base::settings;
use std::ffi::{CStr, CString, c_char, c_int};
use std::net::IpAddr;
use std::time::Duration;

/// MPI_INFO_NULL, or an object of the MPI below.
#[derive(Clone, Copy)]
pub struct Info(Option<Handle>);

impl Info {
    pub fn of(info: Handle) -> Info {
        let abi = abi::get();
        Info(Some(info & abi.mask).filter(|info| *info != abi.info_null))
    }

    /// The value of a key.
    pub fn get(self, key: &str) -> Option<String> {
        let abi = abi::get();
        let key = CString::new(key).ok()?;
        let room = abi.max_info_val as usize;
        let (mut value, mut flag) = (vec![0u8; room + 1], 0);
        // SAFETY: a live object, a terminated key, and one byte more than we say that there is room for.
        let code =
            unsafe { pmpi::info_get(self.0?, key.as_ptr(), room as c_int, value.as_mut_ptr().cast(), &mut flag) };
        (code == 0 && flag != 0).then(|| text(&value))
    }

    /// All keys and their values, in the object's order.
    pub fn all(self) -> Vec<(String, String)> {
        let Some(info) = self.0 else { return Vec::new() };
        let mut count = 0;
        // SAFETY: a live object, plain out-argument.
        if unsafe { pmpi::info_get_nkeys(info, &mut count) } != 0 {
            return Vec::new();
        }
        let key = |n| {
            let mut key: Vec<c_char> = vec![0; abi::get().max_info_key as usize + 1];
            // SAFETY: a live object, a number below the count, room for the longest key.
            let code = unsafe { pmpi::info_get_nthkey(info, n, key.as_mut_ptr()) };
            (code == 0).then(|| text(&key.iter().map(|c| *c as u8).collect::<Vec<_>>()))
        };
        (0..count).filter_map(|n| key(n).and_then(|key| Some((key.clone(), self.get(&key)?)))).collect()
    }

    /// The key `timeout`: the seconds that this accept or connect may wait.
    pub fn timeout(self) -> Result<Option<Duration>, Failure> {
        let Some(text) = self.get("timeout") else { return Ok(None) };
        let bad = || Failure::new(Class::Arg, format!("timeout: '{text}' is no number of seconds"));
        settings::seconds(&text).map(Some).ok_or_else(bad)
    }

    /// The keys `ip_address` and `ip_port`: where the process is to be reached at a port.
    pub fn place(self) -> Result<(Option<IpAddr>, Option<u16>), Failure> {
        let bad = |key, value: &str| Failure::new(Class::Arg, format!("{key}: '{value}' is none"));
        let address: Option<IpAddr> =
            self.get("ip_address").map(|v| v.trim().parse().map_err(|_| bad("ip_address", &v))).transpose()?;
        // The unspecified address is none that other processes could dial.
        let address = address.filter(|ip| !ip.is_unspecified());
        let port = self.get("ip_port").map(|v| v.trim().parse().map_err(|_| bad("ip_port", &v))).transpose()?;
        Ok((address, port))
    }
}

fn text(bytes: &[u8]) -> String {
    CStr::from_bytes_until_nul(bytes).map(|c| c.to_string_lossy().into_owned()).unwrap_or_default()
}
