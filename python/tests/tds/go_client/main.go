// Reads rows of `fathom echo --tds` as an application does, with go-mssqldb: its address and packet size are the arguments.
package main

import (
	"database/sql"
	"fmt"
	"log"
	"os"

	_ "github.com/microsoft/go-mssqldb"
)

func main() {
	dsn := fmt.Sprintf("sqlserver://sa:hush@%s?packet+size=%s&encrypt=%s&trustservercertificate=true", os.Args[1], os.Args[2], os.Args[3])
	db, err := sql.Open("sqlserver", dsn)
	if err != nil {
		log.Fatal(err)
	}
	var session, size int
	var encrypted string
	if err := db.QueryRow("SELECT * FROM sys.dm_exec_connections").Scan(&session, &size, &encrypted); err != nil {
		log.Fatal(err)
	}
	fmt.Println(size, encrypted)
	rows, err := db.Query("SELECT * FROM fathom_rows(700, 90)")
	if err != nil {
		log.Fatal(err)
	}
	for rows.Next() {
		var n int
		var body string
		if err := rows.Scan(&n, &body); err != nil {
			log.Fatal(err)
		}
		fmt.Println(n, body)
	}
	if err := rows.Err(); err != nil {
		log.Fatal(err)
	}
}
