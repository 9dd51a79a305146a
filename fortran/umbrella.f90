! Taper for Fortran: `use taper` gives a program all of it.
module taper
    use taper_base
    use taper_operators
    use taper_arrays
    use taper_objects
    use taper_layers
    use taper_optimisers
    use taper_training
    use taper_callbacks
    implicit none
    public
end module taper
