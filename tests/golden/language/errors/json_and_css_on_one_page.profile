CREATE DOMAIN "D" AS
CLASS::A(id:String FROM JSON '$.id', b:String FROM CSS 'p');
