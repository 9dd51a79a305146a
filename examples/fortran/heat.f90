! A network inside a solver: heat flows along a rod whose conductivity depends on its temperature in a way nobody knows. The solver's
! flux asks a network for the conductivity; measurements of the rod train it, by gradients that go back through all time steps.
program heat
    use taper
    implicit none
    integer, parameter :: n = 48, steps = 12, rods = 8
    real(c_double), parameter :: dx = 1d0 / n, dt = 0.2d0 * dx**2
    real(c_double), target :: start(n, rods), measured(n, rods)
    real(c_double) :: first, last, at(1, 5), found(1, 5)
    real(c_double), target :: temperatures(1, 5)
    type(tp_tensor) :: u, loss, goal
    type(tp_module) :: conductivity
    type(tp_optimiser) :: adam
    type(tp_scope) :: scope
    type(tp_no_grad) :: off
    integer :: i, k, epoch

    do k = 1, rods
        start(:, k) = [(0.5d0 + 0.5d0 * sin(6.28d0 * k * i * dx / 2 + k), i=1, n)]
    end do
    measured = start
    do k = 1, rods
        do i = 1, steps
            call true_step(measured(:, k))
        end do
    end do

    call tp_manual_seed(3)
    conductivity = tp_nn_sequential([tp_nn_linear(1, 16), tp_nn_tanh(), tp_nn_linear(16, 1), tp_nn_softplus()])
    call conductivity%to(tp_float64)
    adam = tp_adam(conductivity, lr=1d-2)
    goal = tp_over(measured)
    do epoch = 1, 300
        call scope%open()
        u = tp_over(start)
        do i = 1, steps
            u = step_of(u)
        end do
        loss = tp_mean((u - goal)**2) * 1d6
        call adam%zero_grad()
        call loss%backward()
        call adam%step()
        last = loss%item()
        if (epoch == 1) first = last
        call scope%close()
    end do
    call tp_check("training")

    temperatures(1, :) = [0.1d0, 0.3d0, 0.5d0, 0.7d0, 0.9d0]
    call off%begin()
    u = conductivity%forward(tp_over(temperatures))
    call tp_copy_to(u, found)
    call off%end()
    at = 0.5d0 + temperatures**2
    print "(a, es9.2, a, es9.2)", "loss ", first, " to ", last
    print "(a, 5f7.3)", "temperature  ", temperatures
    print "(a, 5f7.3)", "conductivity ", at
    print "(a, 5f7.3)", "network      ", found
    if (last > 1d-2 * first .or. maxval(abs(at - found)) > 0.1) error stop "the conductivity was not found"

contains

    subroutine true_step(rod) ! what nature does
        real(c_double), intent(inout) :: rod(n)
        real(c_double) :: flux(n - 1), middle(n - 1)
        middle = (rod(2:) + rod(:n - 1)) / 2
        flux = (0.5d0 + middle**2) * (rod(2:) - rod(:n - 1)) / dx
        rod(2:n - 1) = rod(2:n - 1) + dt / dx * (flux(2:) - flux(:n - 2))
    end subroutine

    function step_of(u) result(next) ! the same on tensors (rods, n), with the network's conductivity
        type(tp_tensor), intent(in) :: u
        type(tp_tensor) :: next, left, right, middle, flux, change
        left = tp_narrow(u, 1, 0, n - 1)
        right = tp_narrow(u, 1, 1, n - 1)
        middle = tp_unsqueeze((left + right) / 2, -1)
        flux = tp_squeeze_dim(conductivity%forward(middle), -1) * (right - left) / dx
        change = tp_narrow(flux, 1, 1, n - 2) - tp_narrow(flux, 1, 0, n - 2)
        next = u + tp_pad(change * (dt / dx), [1, 1])
        call next%hand_over() ! a function's result belongs to the scope
    end function
end program heat
