C     The air: sends heat to the ocean and gets its temperature.
      PROGRAM AIR
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INCLUDE 'mpif_connect.h'
      INTEGER N, STEPS
      PARAMETER (N = 100, STEPS = 10)
      DOUBLE PRECISION HEAT(N), TEMP(N)
      INTEGER RANK, HANDLE, OCEAN, STEP, I, IERROR
      INTEGER STATUS(MPI_STATUS_SIZE)

      CALL MPI_INIT(IERROR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, RANK, IERROR)
      CALL MPI_CONN_REGISTER('air', MPI_COMM_WORLD, HANDLE, IERROR)
      CALL MPI_CONN_INTERCOMM_CREATE(HANDLE, 'ocean', OCEAN, IERROR)
      CALL MPI_CONN_REMOVE(HANDLE, IERROR)

      DO I = 1, N
         TEMP(I) = 10
      END DO
      DO STEP = 1, STEPS
         DO I = 1, N
            HEAT(I) = 20 - TEMP(I)
         END DO
         CALL MPI_SENDRECV(HEAT, N, MPI_DOUBLE_PRECISION, RANK, 0,
     &        TEMP, N, MPI_DOUBLE_PRECISION, RANK, 0, OCEAN,
     &        STATUS, IERROR)
      END DO
      PRINT '(A,I0,A,F6.3,A)', 'air ', RANK, ': the ocean has ',
     &     TEMP(1), ' degrees'
      CALL MPI_COMM_FREE(OCEAN, IERROR)
      CALL MPI_FINALIZE(IERROR)
      END PROGRAM
