CREATE DOMAIN "D" AS
CLASS::A EACH JSON '$.x[*]' (id:String FROM JSON '$.id');
