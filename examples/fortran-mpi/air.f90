! The air: sends the heat at its surface to the ocean, and gets the ocean's temperature.
program air
    use mpi
    use mpi_connect
    implicit none
    integer, parameter :: cells = 100, steps = 10
    double precision :: heat(cells), temperature(cells)
    integer :: ocean
    integer :: rank, handle, step, ierror

    call MPI_Init(ierror)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    call MPI_Conn_register('air', MPI_COMM_WORLD, handle, ierror)      ! our name
    call MPI_Conn_intercomm_create(handle, 'ocean', ocean, ierror)     ! waits for the other job
    call MPI_Conn_remove(handle, ierror)                               ! the name is free again; ocean stays

    temperature = 10
    do step = 1, steps
        heat = 20 - temperature
        call MPI_Sendrecv(heat, cells, MPI_DOUBLE_PRECISION, rank, 0, &
            temperature, cells, MPI_DOUBLE_PRECISION, rank, 0, ocean, MPI_STATUS_IGNORE, ierror)
    end do
    print '(a,i0,a,f6.3,a)', 'air ', rank, ': the ocean has ', temperature(1), ' degrees'
    call MPI_Comm_free(ocean, ierror)
    call MPI_Finalize(ierror)
end program
