! Taper for Fortran: procedures of the program that the library calls: rates of schedules, LBFGS's closure, hooks of modules. And schedules
! that are made of others.
!
! A procedure goes through C as the context of a trampoline. It must live as long as what calls it. Procedures of a module do; an
! internal procedure lives while the procedure around it runs, and needs a stack that can be executed.
module taper_callbacks
    use taper_base
    use taper_objects
    use taper_training
    implicit none
    public

    abstract interface
        function tp_rate_procedure(epoch) result(factor) ! the rate's factor in an epoch, counted from 0
            import
            integer, intent(in) :: epoch
            real(c_double) :: factor
        end function
        subroutine tp_closure_procedure(loss) ! clears the gradients, computes the loss and calls loss%backward()
            import
            type(tp_tensor), intent(inout) :: loss
        end subroutine
        subroutine tp_prehook_procedure(self, x) ! before a forward: may assign another input
            import
            type(tp_module), intent(in) :: self
            type(tp_tensor), intent(inout) :: x
        end subroutine
        subroutine tp_hook_procedure(self, x, y) ! after a forward: may assign another result
            import
            type(tp_module), intent(in) :: self
            type(tp_tensor), intent(in) :: x
            type(tp_tensor), intent(inout) :: y
        end subroutine
    end interface

    interface
        !from_c tp_sequential_lr tp_chained_scheduler tp_step_with tp_module_add_prehook tp_module_add_forward_hook
        !from_c tp_module_remove_hook
    end interface

contains

    ! ---- rates by a function ----
    function tpf_call_rate(epoch, context) bind(c) result(factor)
        integer(c_int64_t), value :: epoch
        type(c_ptr), value :: context
        real(c_double) :: factor
        procedure(tp_rate_procedure), pointer :: rate
        call c_f_procpointer(transfer(context, c_null_funptr), rate)
        factor = rate(int(epoch))
    end function
    function tp_lambda_lr(optimiser, lr_lambda) result(s) ! the first rate times the function's value
        type(tp_optimiser), intent(in) :: optimiser
        procedure(tp_rate_procedure) :: lr_lambda
        type(tp_schedule) :: s
        type(c_funptr) :: call_rate
        call_rate = c_funloc(tpf_call_rate) ! a variable: gfortran would put a constant's address where none may be
        s%ref = tpf_ref_of(tp_schedule_new("LambdaLR", optimiser, lr_lambda=call_rate, &
                                           context=transfer(c_funloc(lr_lambda), c_null_ptr)))
    end function
    function tp_multiplicative_lr(optimiser, lr_lambda) result(s) ! the rate before times the function's value
        type(tp_optimiser), intent(in) :: optimiser
        procedure(tp_rate_procedure) :: lr_lambda
        type(tp_schedule) :: s
        type(c_funptr) :: call_rate
        call_rate = c_funloc(tpf_call_rate)
        s%ref = tpf_ref_of(tp_schedule_new("MultiplicativeLR", optimiser, lr_lambda=call_rate, &
                                           context=transfer(c_funloc(lr_lambda), c_null_ptr)))
    end function

    ! ---- schedules of schedules, which take the others over ----
    function tp_sequential_lr(optimiser, schedules, milestones) result(s) ! one after the other, from one milestone to the next
        type(tp_optimiser), intent(in) :: optimiser
        type(tp_schedule), intent(in) :: schedules(:)
        integer, intent(in) :: milestones(:)
        type(tp_schedule) :: s
        type(tpf_frame), target :: f
        type(c_ptr), target :: handles(size(schedules))
        handles = tpf_schedule_handles(schedules)
        call tpf_made(s%ref, tpf_is_schedule, tpf_c_sequential_lr(optimiser%handle(), size(schedules, kind=c_int64_t), &
                                                                  c_loc(handles), tpf_integers(f, milestones)), &
                      optimiser%ref)
        call tpf_take_over(s, schedules)
    end function
    function tp_chained_scheduler(schedules) result(s) ! all of them in each step
        type(tp_schedule), intent(in) :: schedules(:)
        type(tp_schedule) :: s
        type(tpf_ref) :: optimiser
        type(c_ptr), target :: handles(size(schedules))
        if (size(schedules) > 0) then
            if (schedules(1)%defined()) optimiser%cell => schedules(1)%ref%cell%needs
        end if
        handles = tpf_schedule_handles(schedules)
        call tpf_made(s%ref, tpf_is_schedule, tpf_c_chained_scheduler(size(schedules, kind=c_int64_t), c_loc(handles)), optimiser)
        call tpf_take_over(s, schedules)
    end function
    function tpf_schedule_handles(schedules) result(handles)
        type(tp_schedule), intent(in) :: schedules(:)
        type(c_ptr) :: handles(size(schedules))
        integer :: i
        do i = 1, size(schedules)
            handles(i) = schedules(i)%handle()
        end do
    end function
    subroutine tpf_take_over(whole, parts) ! the parts end with the whole: variables that hold one no longer end it
        type(tp_schedule), intent(in) :: whole
        type(tp_schedule), intent(in) :: parts(:)
        type(tpf_cell), pointer :: cell, needs
        integer :: i
        if (.not. whole%defined()) return
        do i = 1, size(parts)
            cell => parts(i)%ref%cell
            cell%kind = 0
            if (cell%count > 0) cycle
            needs => cell%needs
            deallocate (cell)
            call tpf_drop(needs)
        end do
    end subroutine

    ! ---- steps that compute the loss several times ----
    function tpf_call_closure(context) bind(c) result(handle)
        type(c_ptr), value :: context
        type(c_ptr) :: handle
        procedure(tp_closure_procedure), pointer :: closure
        type(tp_tensor) :: loss
        call c_f_procpointer(transfer(context, c_null_funptr), closure)
        call closure(loss)
        handle = c_null_ptr
        if (.not. loss%defined()) return
        call loss%hand_over()
        handle = loss%handle
    end function
    subroutine tp_step_with(optimiser, closure, loss) ! LBFGS, and any other; loss: the first one
        type(tp_optimiser), intent(in) :: optimiser
        procedure(tp_closure_procedure) :: closure
        real(c_double), intent(out), optional :: loss
        real(c_double) :: first
        logical(c_bool) :: ok
        first = 0
        ok = tpf_c_step_with(optimiser%handle(), c_funloc(tpf_call_closure), transfer(c_funloc(closure), c_null_ptr), first)
        if (present(loss)) loss = first
    end subroutine

    ! ---- hooks of modules ----
    function tpf_call_prehook(self, n, args, context) bind(c) result(ok)
        type(c_ptr), value :: self, context
        integer(c_int64_t), value :: n
        type(tpf_value), intent(inout) :: args(n)
        logical(c_bool) :: ok
        procedure(tp_prehook_procedure), pointer :: hook
        type(tp_module) :: m
        type(tp_tensor) :: x
        call c_f_procpointer(transfer(context, c_null_funptr), hook)
        m%ref%lent = self
        x = tpf_borrowed(transfer(args(1)%word(1), c_null_ptr))
        call hook(m, x)
        ok = logical(x%defined() .and. tp_ok(), c_bool)
        if (.not. ok) return
        call x%hand_over()
        args(1)%word(1) = transfer(x%handle, 0_c_int64_t)
    end function
    function tpf_call_hook(self, n, args, nresults, results, context) bind(c) result(ok)
        type(c_ptr), value :: self, context
        integer(c_int64_t), value :: n, nresults
        type(tpf_value), intent(in) :: args(n)
        type(tpf_value), intent(inout) :: results(nresults)
        logical(c_bool) :: ok
        procedure(tp_hook_procedure), pointer :: hook
        type(tp_module) :: m
        type(tp_tensor) :: x, y
        call c_f_procpointer(transfer(context, c_null_funptr), hook)
        m%ref%lent = self
        x = tpf_borrowed(transfer(args(1)%word(1), c_null_ptr))
        y = tpf_borrowed(transfer(results(1)%word(1), c_null_ptr))
        call hook(m, x, y)
        ok = logical(y%defined() .and. tp_ok(), c_bool)
        if (.not. ok) return
        call y%hand_over()
        results(1)%word(1) = transfer(y%handle, 0_c_int64_t)
    end function
    function tp_add_prehook(m, hook) result(handle) ! for tp_remove_hook; 0 on failure
        type(tp_module), intent(in) :: m
        procedure(tp_prehook_procedure) :: hook
        integer(c_int64_t) :: handle
        handle = tpf_c_module_add_prehook(m%handle(), c_funloc(tpf_call_prehook), &
            transfer(c_funloc(hook), c_null_ptr), c_null_funptr)
    end function
    function tp_add_forward_hook(m, hook) result(handle)
        type(tp_module), intent(in) :: m
        procedure(tp_hook_procedure) :: hook
        integer(c_int64_t) :: handle
        handle = tpf_c_module_add_forward_hook(m%handle(), c_funloc(tpf_call_hook), &
            transfer(c_funloc(hook), c_null_ptr), c_null_funptr)
    end function
    subroutine tp_remove_hook(m, handle)
        type(tp_module), intent(in) :: m
        integer(c_int64_t), intent(in) :: handle
        logical(c_bool) :: ok
        ok = tpf_c_module_remove_hook(m%handle(), handle)
    end subroutine
end module taper_callbacks
