C     The ocean: is warmed by the air and sends its temperature.
      PROGRAM OCEAN
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INCLUDE 'mpif_connect.h'
      INTEGER N, STEPS
      PARAMETER (N = 100, STEPS = 10)
      DOUBLE PRECISION HEAT(N), TEMP(N)
      INTEGER RANK, HANDLE, AIR, STEP, I, IERROR
      INTEGER STATUS(MPI_STATUS_SIZE)

      CALL MPI_INIT(IERROR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, RANK, IERROR)
      CALL MPI_CONN_REGISTER('ocean', MPI_COMM_WORLD, HANDLE, IERROR)
      CALL MPI_CONN_INTERCOMM_CREATE(HANDLE, 'air', AIR, IERROR)
      CALL MPI_CONN_REMOVE(HANDLE, IERROR)

      DO I = 1, N
         TEMP(I) = 10
      END DO
      DO STEP = 1, STEPS
         CALL MPI_RECV(HEAT, N, MPI_DOUBLE_PRECISION, RANK, 0, AIR,
     &        STATUS, IERROR)
         DO I = 1, N
            TEMP(I) = TEMP(I) + 0.25 * HEAT(I)
         END DO
         CALL MPI_SEND(TEMP, N, MPI_DOUBLE_PRECISION, RANK, 0, AIR,
     &        IERROR)
      END DO
      PRINT '(A,I0,A,F6.3,A)', 'ocean ', RANK, ': ', TEMP(1),
     &     ' degrees'
      CALL MPI_COMM_FREE(AIR, IERROR)
      CALL MPI_FINALIZE(IERROR)
      END PROGRAM
