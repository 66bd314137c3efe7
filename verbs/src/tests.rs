//! The structures are those of the C header, where there is one; and the choice of a GID.

use super::*;
use std::mem::offset_of;
use std::process::Command;

/// What is compared: the C expression, and the value here.
fn layouts() -> Vec<(&'static str, usize)> {
    vec![
        ("offsetof(struct ibv_context, ops.poll_cq)", offset_of!(Context, poll_cq)),
        ("offsetof(struct ibv_context, ops.req_notify_cq)", offset_of!(Context, req_notify_cq)),
        ("offsetof(struct ibv_context, ops.post_srq_recv)", offset_of!(Context, post_srq_recv)),
        ("offsetof(struct ibv_context, ops.post_send)", offset_of!(Context, post_send)),
        ("offsetof(struct ibv_context, async_fd)", offset_of!(Context, async_fd)),
        ("offsetof(struct ibv_cq, context)", offset_of!(Cq, context)),
        ("offsetof(struct ibv_srq, context)", offset_of!(Srq, context)),
        ("offsetof(struct ibv_qp, context)", offset_of!(Qp, context)),
        ("offsetof(struct ibv_qp, qp_num)", offset_of!(Qp, number)),
        ("offsetof(struct ibv_mr, lkey)", offset_of!(Mr, lkey)),
        ("offsetof(struct ibv_mr, rkey)", offset_of!(Mr, rkey)),
        ("offsetof(struct ibv_comp_channel, fd)", offset_of!(Channel, fd)),
        ("sizeof(struct ibv_sge)", size_of::<Sge>()),
        ("sizeof(struct ibv_send_wr)", size_of::<SendWr>()),
        ("offsetof(struct ibv_send_wr, sg_list)", offset_of!(SendWr, list)),
        ("offsetof(struct ibv_send_wr, opcode)", offset_of!(SendWr, opcode)),
        ("offsetof(struct ibv_send_wr, send_flags)", offset_of!(SendWr, flags)),
        ("offsetof(struct ibv_send_wr, wr.rdma.remote_addr)", offset_of!(SendWr, remote)),
        ("offsetof(struct ibv_send_wr, wr.rdma.rkey)", offset_of!(SendWr, remote_key)),
        ("sizeof(struct ibv_recv_wr)", size_of::<RecvWr>()),
        ("sizeof(struct ibv_wc)", size_of::<Wc>()),
        ("offsetof(struct ibv_wc, opcode)", offset_of!(Wc, opcode)),
        ("offsetof(struct ibv_wc, byte_len)", offset_of!(Wc, bytes)),
        ("sizeof(struct ibv_qp_init_attr)", size_of::<QpInit>()),
        ("offsetof(struct ibv_qp_init_attr, cap)", offset_of!(QpInit, cap)),
        ("offsetof(struct ibv_qp_init_attr, qp_type)", offset_of!(QpInit, kind)),
        ("sizeof(struct ibv_qp_attr)", size_of::<QpAttr>()),
        ("offsetof(struct ibv_qp_attr, dest_qp_num)", offset_of!(QpAttr, dest_qp_num)),
        ("offsetof(struct ibv_qp_attr, qp_access_flags)", offset_of!(QpAttr, access)),
        ("offsetof(struct ibv_qp_attr, ah_attr)", offset_of!(QpAttr, ah)),
        ("offsetof(struct ibv_qp_attr, pkey_index)", offset_of!(QpAttr, pkey_index)),
        ("offsetof(struct ibv_qp_attr, max_dest_rd_atomic)", offset_of!(QpAttr, max_dest_rd_atomic)),
        ("offsetof(struct ibv_qp_attr, port_num)", offset_of!(QpAttr, port)),
        ("offsetof(struct ibv_qp_attr, timeout)", offset_of!(QpAttr, timeout)),
        ("offsetof(struct ibv_qp_attr, rnr_retry)", offset_of!(QpAttr, rnr_retry)),
        ("sizeof(struct ibv_ah_attr)", size_of::<Ah>()),
        ("offsetof(struct ibv_ah_attr, grh.sgid_index)", offset_of!(Ah, gid_index)),
        ("offsetof(struct ibv_ah_attr, dlid)", offset_of!(Ah, lid)),
        ("offsetof(struct ibv_ah_attr, is_global)", offset_of!(Ah, is_global)),
        ("offsetof(struct ibv_ah_attr, port_num)", offset_of!(Ah, port)),
        ("sizeof(struct ibv_srq_init_attr)", size_of::<SrqInit>()),
        ("offsetof(struct ibv_srq_init_attr, attr)", offset_of!(SrqInit, receives)),
        ("offsetof(struct ibv_device_attr, max_qp_wr)", 4 * DeviceAttr::WORK),
        ("offsetof(struct ibv_device_attr, max_cqe)", 4 * DeviceAttr::COMPLETIONS),
        ("offsetof(struct ibv_device_attr, max_qp_rd_atom)", 4 * DeviceAttr::READS_ANSWERED),
        ("offsetof(struct ibv_device_attr, max_qp_init_rd_atom)", 4 * DeviceAttr::READS_BEGUN),
        ("offsetof(struct ibv_device_attr, max_srq_wr)", 4 * DeviceAttr::SHARED_RECEIVES),
        ("offsetof(struct ibv_device_attr, phys_port_cnt)", DeviceAttr::PORTS),
        ("offsetof(struct ibv_port_attr, active_mtu)", PortAttr::MTU),
        ("offsetof(struct ibv_port_attr, lid)", PortAttr::LID),
        ("offsetof(struct ibv_port_attr, link_layer)", PortAttr::LINK_LAYER),
        ("offsetof(struct ibv_async_event, event_type)", offset_of!(AsyncEvent, kind)),
        ("IBV_WC_RECV", DONE_RECEIVE as usize),
        ("IBV_EVENT_QP_LAST_WQE_REACHED", base::rdma::LAST_RECEIVE as usize),
        ("IBV_QP_DEST_QPN", mask::DEST_QPN as usize),
        ("IBV_QP_MAX_DEST_RD_ATOMIC", mask::MAX_DEST_RD_ATOMIC as usize),
        ("IBV_QPS_ERR", ERROR as usize),
        ("IBV_PORT_ACTIVE", ACTIVE as usize),
    ]
}

#[test]
fn the_structures_are_those_of_the_c_header() {
    if !std::path::Path::new("/usr/include/infiniband/verbs.h").exists() {
        return println!("NOT TESTED: no infiniband/verbs.h here");
    }
    let mut text = "#include <stddef.h>\n#include <infiniband/verbs.h>\n".to_owned();
    for (expression, value) in layouts() {
        text += &format!("_Static_assert({expression} == {value}, \"here {value}\");\n");
    }
    let file = std::env::temp_dir().join(format!("mpi_connect_verbs_{}.c", std::process::id()));
    fs::write(&file, text).unwrap();
    let gcc = Command::new("gcc").args(["-fsyntax-only", "-x", "c"]).arg(&file).output().unwrap();
    fs::remove_file(&file).unwrap();
    assert!(gcc.status.success(), "{}", String::from_utf8_lossy(&gcc.stderr));
}

#[test]
fn a_routed_gid_of_an_address_is_the_best() {
    let v4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
    let global = [0x20; 16];
    let link_local = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let all = [(v4, "RoCE v2\n"), (global, "RoCE v2"), (link_local, "RoCE v2"), (v4, "IB/RoCE v1"), (link_local, "")];
    let grades: Vec<_> = all.iter().map(|(gid, kind)| grade(gid, kind)).collect();
    assert!(grades.is_sorted_by(|a, b| a < b), "{grades:?}");
}

/// Where libibverbs is, its function for that is found, and called through the table. It may be too late for it, or not needed.
#[test]
fn the_table_has_what_protects_at_fork() {
    let Some(functions) = functions() else { return println!("NOT TESTED: no libibverbs here") };
    assert!(functions.ibv_fork_init.is_some(), "it is there since version 1.1");
    // SAFETY: nothing of libibverbs is in use.
    let done = unsafe { (TABLE.fork)() };
    assert!(done == 0 || done == -libc::EINVAL || done == -libc::ENOSYS, "{done}");
}
