! Comes after `contains`: checks that count themselves, and calls of the MPI's own with every sentinel that it has.

  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    checks = checks + 1
    if (condition) return
    failures = failures + 1
    print '(a,i0,2a)', 'FAIL rank ', me, ': ', what
    flush (6)
  end subroutine check

  subroutine same(got, wanted, what)
    integer, intent(in) :: got, wanted
    character(len=*), intent(in) :: what
    call check(got == wanted, what)
    if (got /= wanted) print '(2(a,i0))', '  is ', got, ', not ', wanted
  end subroutine same

  ! The call before must have worked; what follows it could only hang.
  subroutine okay(what)
    character(len=*), intent(in) :: what
    character(len=ERROR_STRING) :: text
    integer :: length, ignored
    call check(code == MPI_SUCCESS, what)
    if (code == MPI_SUCCESS) return
    call MPI_Error_string(code, text, length, ignored)
    print '(2a)', '  ', text(:length)
    flush (6)
    call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine okay

  ! The call before must have failed so.
  subroutine refused(wanted, what)
    integer, intent(in) :: wanted
    character(len=*), intent(in) :: what
    integer :: class, ignored
    call MPI_Error_class(code, class, ignored)
    call same(class, wanted, what)
  end subroutine refused

  ! A sentinel that is not known for one is an address like any other, and the answer quietly wrong.
  subroutine sentinels()
    integer, volatile :: out, in
    integer :: sum(3), all(64), lengths(1), next, last, index, n
    integer(kind=ADDRESS) :: places(1)
    HANDLE(MPI_Datatype) :: types(1), there, here
    HANDLE(MPI_Request) :: requests(2)
    STATUS :: status
    logical :: flag
#ifndef LAM
    integer :: ins(1), outs(1)
    HANDLE(MPI_Comm) :: ring
#endif
    next = mod(me + 1, mine)
    last = mod(me + mine - 1, mine)
    sum = [me + 1, 10 * (me + 1), 7]
#ifndef LAM
    call MPI_Allreduce(MPI_IN_PLACE, sum, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
    call okay('MPI_Allreduce in place')
    call show('in place', sum(1), mine * (mine + 1) / 2)
    call show('in place', sum(2), 10 * mine * (mine + 1) / 2)
    call show('in place', sum(3), 7 * mine)
    all = -1
    all(me + 1) = 100 + me
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_INTEGER, all, 1, MPI_INTEGER, MPI_COMM_WORLD, code)
    call okay('MPI_Allgather in place')
    do n = 1, mine
      call show('gathered', all(n), 99 + n)
    end do
    ins = last
    outs = next
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, ins, MPI_UNWEIGHTED, 1, outs, MPI_UNWEIGHTED, &
        MPI_INFO_NULL, .false., ring, code)
    call okay('MPI_Dist_graph_create_adjacent')
    call MPI_Dist_graph_neighbors_count(ring, n, index, flag, code)
    call okay('MPI_Dist_graph_neighbors_count')
    call show('in', n, 1)
    call show('out', index, 1)
    call show('weighted', merge(1, 0, flag), 0)
    call MPI_Comm_free(ring, code)
    call okay('MPI_Comm_free of the ring')
#endif
    ! Absolute addresses.
    lengths = 1
    types = MPI_INTEGER
    call MPI_Get_address(out, places(1), code)
    call MPI_Type_create_struct(1, lengths, places, types, there, code)
    call MPI_Type_commit(there, code)
    call MPI_Get_address(in, places(1), code)
    call MPI_Type_create_struct(1, lengths, places, types, here, code)
    call MPI_Type_commit(here, code)
    call okay('types of absolute addresses')
    out = 4000 + me
    in = -1
    call MPI_Irecv(MPI_BOTTOM, 1, here, last, 3, MPI_COMM_WORLD, requests(1), code)
    call okay('MPI_Irecv at MPI_BOTTOM')
    call MPI_Isend(MPI_BOTTOM, 1, there, next, 3, MPI_COMM_WORLD, requests(2), code)
    call okay('MPI_Isend at MPI_BOTTOM')
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, code)
    call okay('MPI_Waitall without statuses')
    n = in
    call show('at MPI_BOTTOM', n, 4000 + last)
    in = -1
    call MPI_Sendrecv(MPI_BOTTOM, 1, there, next, 4, MPI_BOTTOM, 1, here, last, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE, code)
    call okay('MPI_Sendrecv without a status')
    n = in
    call show('at MPI_BOTTOM', n, 4000 + last)
    call MPI_Type_free(there, code)
    call MPI_Type_free(here, code)
    ! Statuses that are wanted, of requests one by one.
    call MPI_Irecv(sum, 3, MPI_INTEGER, last, 5, MPI_COMM_WORLD, requests(1), code)
    all(:2) = [31, 32]
    call MPI_Isend(all, 2, MPI_INTEGER, next, 5, MPI_COMM_WORLD, requests(2), code)
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE, code)
    call okay('MPI_Wait without a status')
    call MPI_Waitany(1, requests, index, status, code)
    call okay('MPI_Waitany')
    call check(index == 0 .or. index == 1, 'index')
    first = index
    call tell('index', index)
    call show('source', SOURCE_OF(status), last)
    call show('tag', TAG_OF(status), 5)
    call MPI_Get_count(status, MPI_INTEGER, n, code)
    call show('count', n, 2)
    call show('value', sum(2), 32)
    call MPI_Waitany(1, requests, index, MPI_STATUS_IGNORE, code)
    ! Not MPI_UNDEFINED by mpif.h of MPICH 4.0.
    call tell('undefined', index)
    call MPI_Testall(2, requests, flag, MPI_STATUSES_IGNORE, code)
    call show('flag', merge(1, 0, flag), 1)
  end subroutine sentinels

  subroutine show(what, got, wanted)
    character(len=*), intent(in) :: what
    integer, intent(in) :: got, wanted
    call same(got, wanted, what)
    call tell(what, got)
  end subroutine show

  ! For whoever compares what is printed with the library and without.
  subroutine tell(what, got)
    character(len=*), intent(in) :: what
    integer, intent(in) :: got
    if (shown) print '(i0,1x,2a,i0)', me, what, ' ', got
  end subroutine tell

  ! Says how it went, for the harness.
  subroutine finish(name)
    character(len=*), intent(in) :: name
    integer :: counts(2), totals(2)
    counts = [checks, failures]
    call MPI_Allreduce(counts, totals, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
    if (me == 0) print '(3a,i0,a,i0)', 'DONE ', name, ' checks ', totals(1), ' failures ', totals(2)
    call MPI_Finalize(code)
    if (totals(2) /= 0) stop 1
  end subroutine finish
