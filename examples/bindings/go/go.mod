module transformer

go 1.19
