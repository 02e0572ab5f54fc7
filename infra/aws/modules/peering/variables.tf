variable "left" {
  type = object({ id = string, region = string, range = string, route_tables = map(string) })
}

variable "right" {
  type = object({ id = string, region = string, range = string, route_tables = map(string) })
}

variable "tags" {
  type = map(string)
}
