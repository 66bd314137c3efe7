//! See `fuzz::rdma::RDMA`.
#![no_main]

fuzz::program!(fuzz::rdma::RDMA);
