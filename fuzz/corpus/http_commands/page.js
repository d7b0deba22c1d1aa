ÿGET /page.js HTTP/1.1
Host: 127.0.0.1

