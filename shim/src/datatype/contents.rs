//! The constructor of a datatype and its arguments, as the MPI below keeps them.

use crate::abi;
use crate::forward::{self as pmpi, Handle};
use std::ffi::c_int;

/// The constructor of a datatype, and how many arguments of each kind it had: MPI_Type_get_envelope.
pub struct Envelope {
    ints: usize,
    addresses: usize,
    large: usize,
    types: usize,
    pub combiner: c_int,
}

/// The arguments: MPI_Type_get_contents. Datatypes that are not predefined are new references.
pub struct Contents {
    pub ints: Vec<i64>,
    addresses: Vec<i64>,
    /// The large counts, for constructors with large counts.
    pub large: Vec<i64>,
    pub types: Vec<Handle>,
}

impl Envelope {
    pub fn of(datatype: Handle) -> Option<Envelope> {
        let (mut ints, mut addresses, mut large, mut types, mut combiner) = (0, 0, 0, 0, 0);
        // SAFETY: plain out-arguments.
        let code = unsafe {
            pmpi::type_get_envelope_c(datatype, &mut ints, &mut addresses, &mut large, &mut types, &mut combiner)
        };
        if code != 0 {
            let (mut ni, mut na, mut nd) = (0, 0, 0);
            // SAFETY: plain out-arguments.
            if unsafe { pmpi::type_get_envelope(datatype, &mut ni, &mut na, &mut nd, &mut combiner) } != 0 {
                return None;
            }
            (ints, addresses, large, types) = (ni.into(), na.into(), 0, nd.into());
        }
        let [ints, addresses, large, types] = [ints, addresses, large, types].map(usize::try_from);
        Some(Envelope {
            ints: ints.ok()?,
            addresses: addresses.ok()?,
            large: large.ok()?,
            types: types.ok()?,
            combiner,
        })
    }

    /// Whether it is predefined: it has a name, or MPI_Type_create_f90_integer or its kin has made it.
    pub fn is_predefined(&self) -> bool {
        let abi = abi::get();
        [abi.combiner_named, abi.combiner_f90_real, abi.combiner_f90_complex, abi.combiner_f90_integer]
            .contains(&self.combiner)
    }

    /// The number of arguments.
    pub fn len(&self) -> usize {
        self.ints + self.addresses + self.large + self.types
    }
}

impl Contents {
    pub fn of(datatype: Handle, e: &Envelope) -> Option<Contents> {
        let mut ints: Vec<c_int> = vec![0; e.ints];
        let mut addresses = vec![0isize; e.addresses];
        let mut large = vec![0i64; e.large];
        // If handles are narrower than this, they fill the front of the array.
        let mut types: Vec<Handle> = vec![0; e.types];
        let (ni, na, nd) = (e.ints as c_int, e.addresses as c_int, e.types as c_int);
        let types_at = types.as_mut_ptr();
        // SAFETY: the arrays are as long as the envelope said.
        let code = unsafe {
            let (ints, addresses) = (ints.as_mut_ptr(), addresses.as_mut_ptr());
            if e.large == 0 {
                pmpi::type_get_contents(datatype, ni, na, nd, ints, addresses, types_at.cast())
            } else {
                let (ni, na, nc, nd) = (e.ints as i64, e.addresses as i64, e.large as i64, e.types as i64);
                let large = large.as_mut_ptr();
                pmpi::type_get_contents_c(datatype, ni, na, nc, nd, ints, addresses, large, types_at.cast())
            }
        };
        if code != 0 {
            return None;
        }
        let width = abi::get().family.handle_bytes;
        // SAFETY: as many handles as were asked for lie there.
        let types = (0..e.types).map(|i| unsafe { abi::load_handle(types_at as usize + i * width) }).collect();
        Some(Contents {
            ints: ints.into_iter().map(i64::from).collect(),
            addresses: addresses.into_iter().map(|a| a as i64).collect(),
            large,
            types,
        })
    }

    /// The numbers in the order of the call, for the constructors that take counts before addresses.
    pub fn numbers(&self) -> Vec<i64> {
        if self.large.is_empty() { [&self.ints[..], &self.addresses[..]].concat() } else { self.large.clone() }
    }
}

/// The size and extent of a datatype in bytes.
pub fn measure(datatype: Handle) -> Option<(usize, isize)> {
    let (mut size, mut lower, mut extent) = (0, 0, 0);
    // SAFETY: plain out-arguments.
    let code = unsafe {
        match pmpi::type_size_x(datatype, &mut size) {
            0 => pmpi::type_get_extent_x(datatype, &mut lower, &mut extent),
            code => code,
        }
    };
    (code == 0).then(|| usize::try_from(size).ok().zip(isize::try_from(extent).ok()))?
}
