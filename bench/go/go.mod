module weir-bench-rate

go 1.18

require golang.org/x/time v0.9.0
